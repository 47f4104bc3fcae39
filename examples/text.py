"""Cluster texts: tf-idf stays sparse from the vectoriser to the clusters.

python examples/text.py FOLDER -k 4      one document a .txt file
python examples/text.py                  a few made-up reviews
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

import dmmc

TOPICS = {
    "kitchen": "pan oven recipe flour butter sauce simmer salt bake knife garlic dough",
    "cycling": "bike wheel saddle gear chain pedal brake climb helmet tyre spoke ride",
    "garden": "soil seed tomato prune compost bloom root water shade leaf mulch weed",
}


def made_up_texts(count: int = 300, seed: int = 0) -> list[str]:
    """Short texts, each from the words of one topic and some of all."""
    rng = np.random.default_rng(seed)
    everything = " ".join(TOPICS.values()).split()
    topics = [words.split() for words in TOPICS.values()]
    return [" ".join([*rng.choice(topics[i % len(topics)], 10), *rng.choice(everything, 3)]) for i in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("-k", type=int, default=3)
    arguments = parser.parse_args()
    texts = (
        [path.read_text(errors="replace") for path in sorted(arguments.folder.glob("*.txt"))]
        if arguments.folder
        else made_up_texts()
    )
    vectoriser = TfidfVectorizer(sublinear_tf=True, min_df=2, stop_words="english", dtype=np.float32)
    X = vectoriser.fit_transform(texts)
    run = dmmc.fit(X, n_clusters=arguments.k)
    words = vectoriser.get_feature_names_out()
    for cluster, size in enumerate(np.bincount(run.labels)):
        mean = np.asarray(X[run.labels == cluster].mean(axis=0)).ravel()
        print(f"cluster {cluster}: {size:5d} texts  {', '.join(words[np.argsort(-mean)[:8]])}")


if __name__ == "__main__":
    main()
