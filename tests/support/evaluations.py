"""What the tests of an evaluation ask for, and rows of its data frames by their columns."""

SIGNALS = ["deebert", "pabee", "right-tool[temperature=fitted]", "pcee[patience=1|2|9]", "cap[alpha=0.1|10]"]


ASKED = {
    "speed_ups": [1.5],
    "primary_speed_up": 1.5,
    "rates_speed_up": 2.0,
    "losses": [2.0],
    "resamples": 30,
    "folds": 3,
    "deals": 1,  # the files of samples are those of the first deal
    "thresholds": {"pabee": ["all"], "deebert": ["median", 0.3]},
}


def only_row(frame, **columns):
    for name, value in columns.items():
        frame = frame[frame[name].isna() if value is None else frame[name] == value]
    assert len(frame) == 1, f"{len(frame)} rows for {columns}"
    return frame.iloc[0]
