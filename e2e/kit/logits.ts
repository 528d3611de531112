import { expect } from "vitest";

/** Every logit, bit by bit; NaN never. */
export function expectSame(rows: Map<string, Float32Array>, expected: Map<string, Float32Array>, title: string): void {
  expect([...rows.keys()].toSorted(), `${title}`).toStrictEqual([...expected.keys()].toSorted());
  for (const [key, row] of rows) {
    const other = expected.get(key)!;
    const at = row.findIndex((value, i) => !(value === other[i]));
    expect(at, `${title}, ${key}: logit ${at} is ${row[at]}, not ${other[at]}`).toBe(-1);
  }
}
