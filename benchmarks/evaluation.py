"""Time an evaluation with one process and with one for each core.

    python benchmarks/evaluation.py [RECIPE] [SIZE] [ENV] [EPISODES] [ROUNDS]

The agent has fresh weights. Both play the same episodes, which is checked; they alternate, so that
other load on the machine affects both. Starting the other processes is part of the time. Seconds of
the CPU, of this process and of the others together, depend little on other load.
"""

import resource
import sys
import time

import torch

from tokenworlds.agent import Agent
from tokenworlds.core.process import prepare_process
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.evaluation.episodes import Episode, evaluate
from tokenworlds.evaluation.processes import cores
from tokenworlds.recipes.catalogue import load


def main(recipe: str, size: str, env: str, episodes: int, rounds: int) -> None:
    prepare_process()
    torch.manual_seed(0)
    settings = load(recipe, size, env).recipe
    spec = EnvSpec(env, "", settings.resolution, settings.grey)
    made = spec.make()
    agent = Agent.build(settings, made.frame_shape, made.action_space)
    made.close()

    def play(processes: int) -> tuple[tuple[float, ...], list[Episode]]:
        begin = clocks()
        (played,) = evaluate(
            [agent], spec, episodes=episodes, seed=0, temperature=1.0, processes=processes
        )
        return tuple(now - then for now, then in zip(clocks(), begin, strict=True)), played

    times: dict[int, list[tuple[float, ...]]] = {1: [], cores(): []}
    played = []
    for _ in range(rounds):
        for processes, taken in times.items():
            seconds, found = play(processes)
            taken.append(seconds)
            played.append(found)
    if any(found != played[0] for found in played):
        raise SystemExit("the episodes differ")
    steps = sum(episode.length for episode in played[0])
    best = {processes: min(taken) for processes, taken in times.items()}
    print(f"{recipe} ({size}) on {spec.name}: {episodes} episodes, {steps:,} steps")
    for processes, (wall, here, others) in best.items():
        faster = f"{best[1][0] / wall:4.2f} times as fast"
        cpu = f"CPU {here:.1f} s here, {others:.1f} s in others"
        print(f"  {processes} processes  {wall:7.1f} s, {faster}; {cpu}")


def clocks() -> tuple[float, float, float]:
    """Seconds of the wall clock, and CPU seconds of this process and of those that ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    here, others = (each.ru_utime + each.ru_stime for each in used)
    return time.perf_counter(), here, others


if __name__ == "__main__":
    given = sys.argv[1:]
    words = [*given, *("step-vq-m", "nano", "catch", "100", "2")[len(given) :]]
    main(words[0], words[1], words[2], int(words[3]), int(words[4]))
