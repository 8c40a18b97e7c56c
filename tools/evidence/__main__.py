"""`python -m tools.evidence gather RUNS` turns runs into CSV, `... write` fills the pages."""

from __future__ import annotations

import argparse
from pathlib import Path

from expertload._files import write_atomically
from tools.evidence.anatomy import examine
from tools.evidence.claim import claim_summary, gather_claim
from tools.evidence.cost import measure_cost
from tools.evidence.figures import draw_figures
from tools.evidence.gather import gather
from tools.evidence.ladder import measure_ladders
from tools.evidence.ladder_outliers import measure_outliers
from tools.evidence.ladder_tables import ladder_summary
from tools.evidence.loop import SETTINGS, play_loops
from tools.evidence.loop_tables import loop
from tools.evidence.outlier_tables import ladder_outliers
from tools.evidence.pages import PAGES, fill
from tools.evidence.strong import measure_on_top, strong, strong_on_top
from tools.evidence.team import measure_certificates, measure_readers, measure_teams

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tools.evidence", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    reader = commands.add_parser("gather", help="read finished runs into results/*.csv")
    reader.add_argument("runs", type=Path, help="folder with one folder of runs per recipe")
    examiner = commands.add_parser(
        "examine", help="find which cases the losses learn from, and write CSV"
    )
    examiner.add_argument("folders", type=Path, nargs="+", help="folders of runs of one recipe")
    commands.add_parser("cost", help="measure what each loss costs, on an idle machine")
    climber = commands.add_parser("ladder", help="measure the steps that lower the load, as CSV")
    climber.add_argument("runs", type=Path, help="folder with the runs of NAME-plain and NAME")
    climber.add_argument("--data-dir", type=Path, help="where data files are")
    stranger = commands.add_parser(
        "outliers", help="measure outliers with the ladder's networks, as CSV"
    )
    stranger.add_argument("runs", type=Path, help="folder with the runs of NAME-plain and NAME")
    stranger.add_argument("--data-dir", type=Path, help="where data files are")
    claimer = commands.add_parser("claim", help="read the runs of the paper's claim, as CSV")
    claimer.add_argument("runs", type=Path, help="folder with the runs of claim-NAME")
    topped = commands.add_parser(
        "on-top", help="measure the strong networks over views and in pairs, as CSV"
    )
    topped.add_argument("runs", type=Path, help="folder with the runs of claim-resnet9-NAME")
    topped.add_argument("--data-dir", type=Path, help="where data files are")
    teamed = commands.add_parser("team", help="measure teams with real people's answers, as CSV")
    teamed.add_argument("data", type=Path, help="folder with the files of people's answers")
    player = commands.add_parser("loop", help="play rounds of learning from experts, as CSV")
    player.add_argument(
        "names", nargs="*", default=list(SETTINGS), help="data sets; all by default"
    )
    player.add_argument("--seeds", type=int, nargs="+", default=list(range(5)))
    player.add_argument("--data-dir", type=Path, help="where data files are")
    commands.add_parser("write", help="fill the tables of the pages and draw the figures")
    arguments = parser.parse_args()
    if arguments.command == "gather":
        for name in gather(arguments.runs):
            print(f"read {name}")
        return
    if arguments.command == "examine":
        for path in examine(arguments.folders):
            print(f"wrote {path.relative_to(ROOT)}")
        return
    if arguments.command == "ladder":
        for line in measure_ladders(arguments.runs, data_dir=arguments.data_dir):
            print(line, flush=True)
        print(f"\n{ladder_summary()}")
        return
    if arguments.command == "outliers":
        for line in measure_outliers(arguments.runs, data_dir=arguments.data_dir):
            print(line, flush=True)
        print(f"\n{ladder_outliers()}")
        return
    if arguments.command == "claim":
        for line in gather_claim(arguments.runs):
            print(line, flush=True)
        print(f"\n{claim_summary()}\n{strong()}")
        return
    if arguments.command == "on-top":
        for line in measure_on_top(arguments.runs, data_dir=arguments.data_dir):
            print(line, flush=True)
        print(f"\n{strong_on_top()}")
        return
    if arguments.command == "team":
        for measure in (measure_teams, measure_readers, measure_certificates):
            for line in measure(arguments.data):
                print(line, flush=True)
        return
    if arguments.command == "loop":
        played = play_loops(arguments.names, arguments.seeds, data_dir=arguments.data_dir)
        for line in played:
            print(line, flush=True)
        print(f"\n{loop()}")
        return
    if arguments.command == "cost":
        print(f"wrote {measure_cost().relative_to(ROOT)}")
        return
    for page in PAGES:
        path = ROOT / page
        write_atomically(path, fill(path.read_text(encoding="utf-8")))
        print(f"filled {page}")
    for path in draw_figures(ROOT / "docs" / "images"):
        print(f"drew {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
