import { expect, test } from "vitest";
import { Random } from "../../directives/test/random-logs.ts";
import { RangeSet } from "../src/ranges.ts";

test("a set of ranges is the set of its numbers", () => {
  for (let seed = 1; seed <= 300; seed++) {
    const random = new Random(seed);
    const ranges = new RangeSet();
    const numbers = new Set<number>();
    for (let i = random.int(1, 20); i > 0; i--) {
      const start = random.int(0, 40);
      const end = start + random.int(0, 8);
      ranges.add(start, end);
      for (let n = start; n < end; n++) numbers.add(n);
    }
    const [from, to] = [random.int(0, 25), random.int(26, 50)];
    const within = [...numbers].filter((n) => n >= from && n < to);
    expect(ranges.total, `seed ${seed}`).toBe(numbers.size);
    expect(ranges.isEmpty).toBe(numbers.size === 0);
    expect(ranges.countWithin(from, to)).toBe(within.length);
    for (let n = 0; n < 50; n++) expect(ranges.has(n)).toBe(numbers.has(n));
    const gaps = [...ranges.gaps(from, to)].flatMap(([a, b]) => Array.from({ length: b - a }, (_, i) => a + i));
    expect(gaps).toStrictEqual(Array.from({ length: to - from }, (_, i) => from + i).filter((n) => !numbers.has(n)));
    const list = [...ranges.ranges()];
    expect(list.every(([a, b], i) => a < b && (i === 0 || a > list[i - 1]![1]))).toBe(true);
    const other = new RangeSet();
    other.add(from, to);
    expect(ranges.countShared(other)).toBe(within.length);
    other.addAll(ranges);
    expect(other.total).toBe(numbers.size + to - from - within.length);
  }
});
