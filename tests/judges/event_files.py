#!/usr/bin/env python3
"""Holds event files to TensorBoard.

event_files.py golden FILE      writes the golden file of tests/data/event_file with TensorBoard's own writer
event_files.py check FOLDER JSONL
                                reads an event folder with tbparse, and compares all values with the metrics of the same run

Needs tensorboard and tbparse from PyPI.
"""
import json
import math
import struct
import sys


def golden(path):
    from tensorboard.compat.proto import event_pb2, summary_pb2
    from tensorboard.summary.writer.record_writer import RecordWriter

    def summary(**values):
        return summary_pb2.Summary(value=[summary_pb2.Summary.Value(tag=tag, simple_value=x) for tag, x in values.items()])

    events = [
        event_pb2.Event(file_version="brain.Event:2"),
        event_pb2.Event(wall_time=1700000000.25, step=1, summary=summary(loss=3.5, lr=1e-3)),
        event_pb2.Event(wall_time=1700000001.5, step=300, summary=summary(validation_loss=-0.125, größe=1e30)),
        event_pb2.Event(wall_time=1700000002.0, step=1000000000000, summary=summary()),
    ]
    with open(path, "wb") as file:
        writer = RecordWriter(file)
        for event in events:
            writer.write(event.SerializeToString())


def check(folder, metrics):
    from tbparse import SummaryReader

    scalars = SummaryReader(folder).scalars
    got = {(int(row.step), row.tag): row.value for row in scalars.itertuples()}
    wanted = {}
    for line in open(metrics):
        line = json.loads(line)
        for name, value in line.items():
            if name not in ("step", "seconds", "peak_bytes", "new_schedule"):
                wanted[line["step"], name] = math.nan if value is None else struct.unpack("f", struct.pack("f", value))[0]
    assert len(scalars) == len(got) == len(wanted) > 0, (len(scalars), len(got), len(wanted))
    for key, value in wanted.items():
        assert got[key] == value or math.isnan(value) and math.isnan(got[key]), (key, got[key], value)
    print(f"tbparse reads {len(got)} values as they are in {metrics}")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "golden":
        golden(sys.argv[2])
    elif len(sys.argv) == 4 and sys.argv[1] == "check":
        check(*sys.argv[2:])
    else:
        sys.exit(__doc__)
