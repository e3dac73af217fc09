#!/usr/bin/env python3
"""Records what lerobot itself makes of a LeRobot directory: tests/fixtures/robot/expected.json.

    python3.12 -m venv venv && venv/bin/pip install "lerobot[pusht]==0.6.1"
    venv/bin/python record_expected.py tests/fixtures/robot/pusht expected.json

Frames, action chunks and tasks come from LeRobotDataset; prompts and normalised numbers from the steps of its PI0.5
processor, in that processor's order.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from lerobot.configs.types import FeatureType, NormalizationMode, PolicyFeature
from lerobot.datasets.compute_stats import compute_relative_action_stats
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.policies.pi05.processor_pi05 import Pi05PrepareStateTokenizerProcessorStep
from lerobot.processor import NormalizerProcessorStep, RelativeActionsProcessorStep
from lerobot.processor.converters import create_transition
from lerobot.lerobot_types import TransitionKey

HORIZON = 8
CELL = 8  # pixels of a side over which colours are averaged


def rounded(values, digits: int) -> list:
    return np.round(np.asarray(values, dtype=np.float64), digits).tolist()


def cells(picture: torch.Tensor) -> list:
    """[3, H, W] in [0, 1] -> means of cells in bytes, [H / CELL * W / CELL * 3], rows first."""
    channels, height, width = picture.shape
    blocks = (picture.double() * 255).reshape(channels, height // CELL, CELL, width // CELL, CELL).mean((2, 4))
    return rounded(blocks.permute(1, 2, 0).flatten(), 2)


def normalizer(stats: dict, mode: NormalizationMode) -> NormalizerProcessorStep:
    features = {
        "observation.state": PolicyFeature(FeatureType.STATE, (2,)),
        "action": PolicyFeature(FeatureType.ACTION, (2,)),
    }
    return NormalizerProcessorStep(
        features=features, norm_map={FeatureType.STATE: mode, FeatureType.ACTION: mode}, stats=stats
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()

    plain = LeRobotDataset("local/pusht", root=args.directory)
    chunks = {"action": [t / plain.meta.fps for t in range(HORIZON)]}
    dataset = LeRobotDataset("local/pusht", root=args.directory, delta_timestamps=chunks)
    stats = dataset.meta.stats
    relative_stats = compute_relative_action_stats(plain.hf_dataset, plain.meta.features, HORIZON, ["gripper"])
    quantiles = normalizer(stats, NormalizationMode.QUANTILES)
    deviations = normalizer(stats, NormalizationMode.MEAN_STD)
    relative = RelativeActionsProcessorStep(enabled=True, exclude_joints=["gripper"], action_names=["x", "y"])
    prompts = Pi05PrepareStateTokenizerProcessorStep()

    ends = [int(episode["dataset_to_index"]) for episode in dataset.meta.episodes]
    wanted = sorted({0, 3, ends[0] - 5, ends[0] - 1, ends[0], ends[-1] - 2, ends[-1] - 1})
    frames = []
    for frame in wanted:
        item = dataset[frame]
        made = create_transition(
            observation={"observation.state": item["observation.state"][None]},
            action=item["action"][None],
            complementary_data={"task": [item["task"]]},
        )
        normalized = quantiles(made)
        frames.append(
            {
                "frame": frame,
                "task": item["task"],
                "state": item["observation.state"].tolist(),
                "actions": item["action"].flatten().tolist(),
                "is_pad": item["action_is_pad"].int().tolist(),
                "top": cells(item["observation.images.top"]),
                "wrist": cells(item["observation.images.wrist"]),
                "quantile_state": normalized[TransitionKey.OBSERVATION]["observation.state"].flatten().tolist(),
                "quantile_actions": normalized[TransitionKey.ACTION].flatten().tolist(),
                "deviation_actions": deviations(made)[TransitionKey.ACTION].flatten().tolist(),
                "relative_actions": relative(made)[TransitionKey.ACTION].flatten().tolist(),
                "prompt": prompts(normalized)[TransitionKey.COMPLEMENTARY_DATA]["task"][0],
            }
        )
    expected = {
        "horizon": HORIZON,
        "frames": frames,
        "relative_statistics": {
            name: np.asarray(relative_stats[name]).tolist() for name in ("mean", "std", "q01", "q99")
        },
    }
    args.out.write_text(json.dumps(expected, indent=None) + "\n")
    print(f"{args.out}: {len(frames)} frames")


if __name__ == "__main__":
    main()
