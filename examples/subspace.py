"""Cluster texts and show, by their words, the directions that separate the clusters.

python examples/subspace.py FOLDER -k 4      one document a .txt file
python examples/subspace.py                  a few made-up letters to a newspaper
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

import dmmc

TOPICS = {
    "trains": "train station platform ticket delay track carriage conductor timetable journey passenger",
    "schools": "school teacher pupil lesson exam homework classroom term reading headmaster lunch",
    "rivers": "river bank flood fish bridge angler trout water reed weir boat",
    "concerts": "concert orchestra violin audience applause hall conductor programme cello ticket evening",
}
"""Some words are in two topics, as words are."""
EVERYWHERE = "sir letter town year morning again people council money week quite never"


def made_up_letters(count: int = 400, seed: int = 0) -> list[str]:
    """Short texts, each with words of one topic and words of no topic."""
    rng = np.random.default_rng(seed)
    topics = [words.split() for words in TOPICS.values()]
    others = EVERYWHERE.split()
    return [" ".join([*rng.choice(topics[i % len(topics)], 8), *rng.choice(others, 8)]) for i in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("-k", type=int, default=len(TOPICS))
    arguments = parser.parse_args()
    texts = (
        [path.read_text(errors="replace") for path in sorted(arguments.folder.glob("*.txt"))]
        if arguments.folder
        else made_up_letters()
    )
    vectoriser = TfidfVectorizer(sublinear_tf=True, min_df=2, stop_words="english", dtype=np.float32)
    X = vectoriser.fit_transform(texts)
    words = vectoriser.get_feature_names_out()
    model = dmmc.fit(X, n_clusters=arguments.k, method="smmc").model
    share = model.singular_values_ / model.singular_values_.sum()
    print(f"{len(texts)} texts of {X.shape[1]} words: {arguments.k} clusters in {model.rank_} directions")
    for number, (direction, part) in enumerate(zip(model.components_, share, strict=True)):
        order = np.argsort(direction)
        print(f"direction {number} ({part:.0%}): {', '.join(words[order[:-6:-1]])} | {', '.join(words[order[:5]])}")
    along = model.transform(X)
    for cluster, size in enumerate(np.bincount(model.labels_)):
        place = " ".join(f"{value:+.2f}" for value in along[model.labels_ == cluster].mean(axis=0))
        print(f"cluster {cluster}: {size:4d} texts around {place}")


if __name__ == "__main__":
    main()
