"""Numbers that are in print: errors in percent for 000 and 002, fractions for 001, accuracies in percent for 004."""

from __future__ import annotations

ERRORS_000: dict[str, dict[str, str]] = {
    "digits 3-8": {"KM": "5.32", "NC": "35", "MMC": "10", "GMMC": "5.6", "IterSVR": "3.36", "CPMMC": "3.08"},
    "digits 1-7": {"KM": "0.55", "NC": "45", "MMC": "31.25", "GMMC": "2.2", "IterSVR": "0.55", "CPMMC": "0.0"},
    "digits 2-7": {"KM": "3.09", "NC": "34", "MMC": "1.25", "GMMC": "0.5", "IterSVR": "0.0", "CPMMC": "0.0"},
    "digits 8-9": {"KM": "9.32", "NC": "48", "MMC": "3.75", "GMMC": "16.0", "IterSVR": "3.67", "CPMMC": "2.26"},
    "ionosphere": {"KM": "32", "NC": "25", "MMC": "21.25", "GMMC": "23.5", "IterSVR": "32.3", "CPMMC": "27.64"},
    "letter A-B": {"KM": "17.94", "NC": "23.2", "IterSVR": "7.2", "CPMMC": "5.53"},
    "satellite 1-2": {"KM": "4.07", "NC": "4.21", "IterSVR": "3.18", "CPMMC": "1.52"},
    "text 1": {"KM": "49.47", "NC": "6.21", "IterSVR": "3.18", "CPMMC": "5.00"},
    "text 2": {"KM": "49.62", "NC": "8.65", "IterSVR": "6.01", "CPMMC": "3.72"},
    "digits, 45 pairs": {"KM": "3.62", "NC": "2.43", "IterSVR": "1.82", "CPMMC": "0.62"},
    "mnist, 45 pairs": {"KM": "10.79", "NC": "10.08", "IterSVR": "7.59", "CPMMC": "4.29"},
}
SECONDS_000: dict[str, dict[str, str]] = {
    "digits 3-8": {"KM": "0.51", "NC": "0.12", "GMMC": "276.16", "IterSVR": "19.72", "CPMMC": "1.10", "r": "5.42"},
    "digits 1-7": {"KM": "0.54", "NC": "0.13", "GMMC": "289.53", "IterSVR": "20.49", "CPMMC": "0.95", "r": "6.15"},
    "digits 2-7": {"KM": "0.50", "NC": "0.11", "GMMC": "304.81", "IterSVR": "19.69", "CPMMC": "0.75", "r": "7.55"},
    "digits 8-9": {"KM": "0.49", "NC": "0.11", "GMMC": "277.26", "IterSVR": "19.41", "CPMMC": "0.85", "r": "3.77"},
    "ionosphere": {"KM": "0.07", "NC": "0.12", "GMMC": "273.04", "IterSVR": "18.86", "CPMMC": "0.78", "r": "2.33"},
    "letter A-B": {"KM": "0.08", "NC": "2.24", "IterSVR": "2133", "CPMMC": "0.87", "r": "4.00"},
    "satellite 1-2": {"KM": "0.19", "NC": "5.01", "IterSVR": "6490", "CPMMC": "4.54", "r": "4.08"},
    "text 1": {"KM": "66.09", "NC": "6.04", "IterSVR": "5844", "CPMMC": "19.75", "r": "3.80"},
    "text 2": {"KM": "52.32", "NC": "5.35", "IterSVR": "6099", "CPMMC": "16.16", "r": "4.00"},
}
ERRORS_002: dict[str, dict[str, str]] = {
    "digits 3-8": {"EvoMMC": "2.52", "FastEvoMMC": "2.58 ± 0.5"},
    "digits 1-7": {"EvoMMC": "0.0", "FastEvoMMC": "0.0"},
    "digits 2-7": {"EvoMMC": "0.0", "FastEvoMMC": "0.0"},
    "digits 8-9": {"EvoMMC": "3.22 ± 0.40", "FastEvoMMC": "3.78 ± 4.13"},
    "ionosphere": {"EvoMMC": "17.94 ± 6.84", "FastEvoMMC": "18.75 ± 3.19"},
    "letter A-B": {"EvoMMC": "3.67 ± 0.33", "FastEvoMMC": "3.27 ± 1.08"},
    "satellite 1-2": {"EvoMMC": "1.16 ± 0.45", "FastEvoMMC": "1.14 ± 0.65"},
    "digits, 45 pairs": {"EvoMMC": "0.72", "FastEvoMMC": "0.81"},
    "mnist, 45 pairs": {"EvoMMC": "(3.23)", "FastEvoMMC": "3.45"},
}
SECONDS_002: dict[str, dict[str, str]] = {
    "digits 3-8": {"EvoMMC": "20.80 (4923)", "FastEvoMMC": "3.41 (8254)"},
    "digits 1-7": {"EvoMMC": "16.61 (3600)", "FastEvoMMC": "2.92 (6978)"},
    "digits 2-7": {"EvoMMC": "18.40 (4374)", "FastEvoMMC": "3.93 (9636)"},
    "digits 8-9": {"EvoMMC": "14.46 (3320)", "FastEvoMMC": "3.09 (7383)"},
    "ionosphere": {"EvoMMC": "14.18 (3288)", "FastEvoMMC": "4.12 (10248)"},
    "letter A-B": {"EvoMMC": "172.09 (26867)", "FastEvoMMC": "44.16 (66297)"},
    "satellite 1-2": {"EvoMMC": "394.95 (58107)", "FastEvoMMC": "70.44 (157971)"},
    "mnist 1-2": {"FastEvoMMC": "274.60 (565929)"},
    "mnist 1-7": {"FastEvoMMC": "304.00 (605932)"},
}
METHODS_001 = ("KM", "NCut", "MMC", "PCAKM", "ADR", "ASI", "DisKM", "SMMC")
ACCURACY_001: dict[str, str] = {
    "ionosphere": "0.7066 0.7009 0.7123 0.7123 0.7066 0.7191 0.7080 0.7493",
    "digits 3-8": "0.9440 0.9384 0.9580 0.9468 0.9440 0.9496 0.9664 0.9768",
    "digits 1-7": "0.9972 0.9945 1.0000 1.0000 0.9972 0.9972 0.9972 1.0000",
    "digits 2-7": "0.9742 0.9298 0.9831 0.9691 0.9691 0.9860 0.9916 1.0000",
    "digits 8-9": "0.8799 0.8842 0.9229 0.9124 0.9011 0.9367 0.9492 1.0000",
    "letter A-B": "0.9248 0.9267 0.9421 0.8633 0.9248 0.9219 0.9273 0.9694",
    "text 1": "0.9440 0.9338 0.9386 0.5005 0.9053 0.7458 0.9384 0.9530",
    "text 2": "0.9131 0.8593 0.7189 0.5045 0.8884 0.7725 0.9290 0.9312",
    "webkb cornell": "0.3346 0.3481 0.6336 0.5398 0.3141 0.3430 0.5923 0.6977",
    "webkb texas": "0.3732 0.3468 0.4908 0.5543 0.3607 0.3416 0.5549 0.6020",
    "webkb washington": "0.3412 0.3489 0.4717 0.6249 0.3302 0.3325 0.7202 0.8276",
    "webkb wisconsin": "0.3707 0.4124 0.5264 0.5340 0.3571 0.3507 0.5375 0.4777",
    "newsgroups_rec": "0.8325 0.7402 0.8287 0.2545 0.8364 0.6821 0.8553 0.9582",
}
NMI_001: dict[str, str] = {
    "ionosphere": "0.1212 0.1103 0.1349 0.1349 0.1193 0.1399 0.1226 0.2602",
    "digits 3-8": "0.7089 0.6717 0.7659 0.7258 0.7089 0.7448 0.8204 0.8458",
    "digits 1-7": "0.9752 0.9560 1.0000 1.0000 0.9752 0.9752 0.9752 1.0000",
    "digits 2-7": "0.8400 0.6711 0.8824 0.8178 0.8178 0.9073 0.9382 1.0000",
    "digits 8-9": "0.5461 0.4848 0.6122 0.5717 0.5349 0.6662 0.6077 1.0000",
    "letter A-B": "0.6562 0.6895 0.7270 0.4564 0.6562 0.6414 0.6732 0.7643",
    "text 1": "0.6974 0.6489 0.6799 0.0064 0.5932 0.3385 0.6710 0.7835",
    "text 2": "0.6555 0.5147 0.2718 0.0190 0.5807 0.3729 0.6742 0.6916",
    "webkb cornell": "0.1906 0.2120 0.2664 0.1232 0.2058 0.2376 0.2286 0.3262",
    "webkb texas": "0.2295 0.2317 0.1360 0.1872 0.2308 0.2061 0.2356 0.2492",
    "webkb washington": "0.2348 0.2245 0.1653 0.1747 0.2257 0.2086 0.3547 0.5292",
    "webkb wisconsin": "0.2083 0.2235 0.1095 0.1307 0.2103 0.1715 0.3229 0.2208",
    "newsgroups_rec": "0.7118 0.6238 0.6981 0.0311 0.6770 0.5555 0.7042 0.8450",
}
SETS_004 = (
    "digits 1-7",
    "digits 2-7",
    "digits 3-8",
    "digits 8-9",
    "ionosphere",
    "letter A-B",
    "satellite train 1-2",
    "usps train 0-1",
    "wine 0-1",
)
LOW_004: dict[str, str] = {
    "MMC-SG": "98.6 99.8 96.9 94.5 70.1 93.8 97.2 99.0 94.9",
    "RMMC-SG": "99.5 99.9 97.2 95.1 66.0 93.8 98.1 96.1 95.0",
    "CMMC-SG": "60.0 75.1 60.6 60.1 71.5 92.3 68.4 99.7 93.9",
    "RCMMC-SG": "99.6 99.2 96.8 96.0 71.5 94.0 98.3 99.8 95.0",
    "CPMMC": "94.2 100 96.9 94.9 64.1 70.0 70.0 98.2 60.0",
    "IterSVR": "99.7 100 96.7 96.6 69.1 91.6 83.4 97.7 93.9",
    "LG-MMC": "96.7 88.4 78.2 96.3 62.4 92.7 97.0 75.9 93.1",
    "P-k-means": "60.4 98.8 96.7 89.0 74.7 88.1 85.2 100 83.9",
    "SSC": "96.1 98.3 89.6 71.7 65.0 51.2 96.5 97.4 89.2",
    "LRR": "95.5 95.2 91.0 89.3 70.1 91.0 99.4 98.9 96.2",
}
HIGH_004: dict[str, str] = {
    "MMC-SG": "94.3 80.0 84.7",
    "RMMC-SG": "93.3 79.4 85.9",
    "CMMC-SG": "90.7 83.5 84.9",
    "RCMMC-SG": "95.6 87.1 86.4",
    "IterSVR": "88.5 82.8 85.0",
    "LG-MMC": "91.9 65.9 84.8",
    "P-k-means": "76.9 62.3 68.1",
    "SSC": "93.9 83.1 –",
    "LRR": "87.9 83.3 –",
    "k-means": "80.6 77.5 84.0",
}
"""Its Coil-100, Cifar 10 (another network's features) and 20 Newsgroups, five pairs each; ours are other sets."""
SECONDS_004: dict[str, dict[str, str]] = {
    "digits 1-7": {"MMC-SG": "0.14", "RMMC-SG": "0.14", "CMMC-SG": "0.14", "RCMMC-SG": "0.15", "IterSVR": "0.24"},
    "ionosphere": {"MMC-SG": "0.14", "RMMC-SG": "0.13", "CMMC-SG": "0.36", "RCMMC-SG": "0.38", "IterSVR": "0.17"},
    "Coil": {"MMC-SG": "0.15", "RMMC-SG": "0.17", "CMMC-SG": "0.18", "RCMMC-SG": "1.85", "IterSVR": "2.10"},
    "34,000 rows": {
        "MMC-SG": "37.83",
        "RMMC-SG": "37.94",
        "CMMC-SG": "140.00",
        "RCMMC-SG": "300.35",
        "IterSVR": "> 24 h",
    },
}
