#!/usr/bin/env python3
"""Writes a LeRobot v3 directory: a scripted policy pushes a T over a table (gym-pusht), lerobot records it.

    python3 -m venv venv && venv/bin/pip install lerobot==0.4.4 gym-pusht     # Python 3.10 to 3.13
    venv/bin/python record_pusht.py --out data/pusht --episodes 50

Features: observation.images.top (96 x 96, from above), observation.images.wrist (64 x 48, what lies around the pusher),
observation.state and action (where the pusher is, and where it is to go: x, y from 0 to 512). With --embed pictures stand
in the Parquet files instead of videos. The policy walks behind the block and pushes it towards its target; it often gets
there and seldom turns it right.
"""

import argparse
import math
import shutil
from pathlib import Path

import gymnasium
import gym_pusht  # noqa: F401  registers the environment
import numpy as np
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from PIL import Image

FPS = 10
TABLE = 512.0  # sides of the table, in the simulator's units
REACH = 28.0  # how far the pusher is sent in a step
BEHIND = 90.0  # where pushing starts, from the block's centre
TASKS = ("push the T onto the green target", "bring the_block to its place")
WRIST = (64, 48)


def features(dtype: str) -> dict:
    def camera(width: int, height: int) -> dict:
        return {"dtype": dtype, "shape": (height, width, 3), "names": ["height", "width", "channels"]}

    place = {"dtype": "float32", "shape": (2,), "names": ["x", "y"]}
    return {
        "observation.images.top": camera(96, 96),
        "observation.images.wrist": camera(*WRIST),
        "observation.state": place,
        "action": dict(place),
    }


def wrist_view(table: np.ndarray, agent: np.ndarray) -> np.ndarray:
    """A window of twice its size around the pusher, moved so that it stays on the table."""
    scale = table.shape[0] / TABLE
    width, height = 2 * WRIST[0], 2 * WRIST[1]
    left = int(np.clip(agent[0] * scale - width / 2, 0, table.shape[1] - width))
    top = int(np.clip(agent[1] * scale - height / 2, 0, table.shape[0] - height))
    window = Image.fromarray(table[top : top + height, left : left + width])
    return np.asarray(window.resize(WRIST, Image.BILINEAR))


def next_place(agent: np.ndarray, block: np.ndarray, goal: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Behind the block as seen from the goal, around it where it is in the way; then through it towards the goal."""
    towards = goal - block
    towards = towards / (np.linalg.norm(towards) + 1e-6)
    side = np.array([-towards[1], towards[0]])
    offset = agent - block
    along, across = float(offset @ towards), float(offset @ side)
    if along < -0.5 * BEHIND and abs(across) < 30:
        target = agent + towards * REACH
    elif along > 0 and abs(across) < BEHIND:
        target = agent + side * math.copysign(REACH, across)
    else:
        target = block - towards * BEHIND
    step = target - agent
    length = np.linalg.norm(step)
    if length > REACH:
        step = step * (REACH / length)
    return np.clip(agent + step + rng.normal(0, 1.5, 2), 0, TABLE).astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="a folder that is not there yet")
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--frames", type=int, default=120, help="of an episode, at most")
    parser.add_argument("--embed", action="store_true", help="pictures in the Parquet files instead of videos")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    env = gymnasium.make(
        "gym_pusht/PushT-v0", obs_type="pixels_agent_pos", render_mode="rgb_array", max_episode_steps=args.frames
    )
    dataset = LeRobotDataset.create(
        repo_id="local/pusht",
        fps=FPS,
        features=features("image" if args.embed else "video"),
        root=args.out,
        robot_type="pusht",
        use_videos=not args.embed,
    )
    for episode in range(args.episodes):
        rng = np.random.default_rng([args.seed, episode])
        observation, info = env.reset(seed=args.seed + episode)
        task = TASKS[episode % len(TASKS)]
        for _ in range(args.frames):
            agent = np.asarray(observation["agent_pos"], dtype=np.float32)
            table = np.asarray(env.render())
            action = next_place(agent, np.asarray(info["block_pose"][:2]), np.asarray(info["goal_pose"][:2]), rng)
            dataset.add_frame(
                {
                    "observation.images.top": np.asarray(observation["pixels"], dtype=np.uint8),
                    "observation.images.wrist": wrist_view(table, agent),
                    "observation.state": agent,
                    "action": action,
                    "task": task,
                }
            )
            observation, _, terminated, truncated, info = env.step(action)
            if terminated or truncated:
                break
        dataset.save_episode()
    dataset.finalize()
    images = args.out / "images"  # where pictures wait to become videos
    if images.exists():
        shutil.rmtree(images)
    print(f"{args.out}: {dataset.meta.total_episodes} episodes, {dataset.meta.total_frames} frames")


if __name__ == "__main__":
    main()
