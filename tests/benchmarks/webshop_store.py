"""Files in the original's format that are too large for memory: seconds and memory to read them into a store.

    python -m tests.benchmarks.webshop_store [--out store.json] [--products 60000]

The files are of the size and format of the genuine ones, written from a synthetic catalogue. They are read by a process
of its own, whose seconds of the processor and peak memory are what is measured; then the store is opened again.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from agentbench_envs.webshop.catalogue import LARGE, load
from agentbench_envs.webshop.generate import generate
from agentbench_envs.webshop.products import Product


def entry(product: Product) -> dict[str, object]:
    """Return a product as the original's product file has it."""
    return {
        "asin": product["asin"],
        "name": product["Title"],
        "full_description": product["Description"],
        "small_description": product["BulletPoints"],
        "pricing": product["Price"],
        "customization_options": {
            name: [{"value": value} for value in values] for name, values in product["options"].items()
        },
        "query": product["query"],
        "category": product["category"],
        "product_category": product["product_category"],
    }


def said(product: Product, number: int) -> dict[str, object]:
    """Return what the original's file of attributes says about a product; two of five are wished for, as there."""
    wish = {"instruction": f"i need {product['query']}", "instruction_attributes": product["Attributes"]}
    return {"attributes": product["Attributes"], **(wish if number % 5 < 2 else {})}


def write(folder: Path, count: int) -> int:
    """Write product file and attributes; return the product file's bytes.

    One at a time, as a process that is started by a large one counts that one's memory as its own peak.
    """
    with (folder / "items_shuffle.json").open("w") as products, (folder / "items_ins_v2.json").open("w") as wishes:
        for number, made in enumerate(generate(count, 0)):
            products.write(f"{', ' if number else '['}{json.dumps(entry(made.product))}")
            key, value = json.dumps(made.product["asin"]), json.dumps(said(made.product, number))
            wishes.write(f"{', ' if number else '{'}{key}: {value}")
        products.write("]")
        wishes.write("}")
    return (folder / "items_shuffle.json").stat().st_size


def measure(folder: Path) -> dict[str, float]:
    """Load the files of a folder, into a store beside them or from it."""
    begin = time.process_time()
    catalogue = load(folder, cache=folder / "stores")
    return {
        "products": len(catalogue.products),
        "goals": len(catalogue.goals),
        "cpu_seconds": round(time.process_time() - begin, 3),
        "memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--products", type=int, default=60_000)
    parser.add_argument("--folder", type=Path, help="measure these files alone, in this process")
    options = parser.parse_args()
    if options.folder:
        print(json.dumps(measure(options.folder)))
        return
    result: dict[str, object] = {"load_before": round(os.getloadavg()[0], 1)}
    with tempfile.TemporaryDirectory(prefix="webshop-store-") as folder:
        size = write(Path(folder), options.products)
        assert size > LARGE, "the files fit into memory, so no store would be made"
        result["file_mb"] = round(size / 1e6, 1)
        for name in ("made", "opened"):
            command = [sys.executable, "-P", "-m", "tests.benchmarks.webshop_store", "--folder", folder]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            result[name] = json.loads(done.stdout)
    print(json.dumps(result, indent=2))
    if options.out:
        options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
