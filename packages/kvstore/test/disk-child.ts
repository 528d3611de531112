// A process to be killed, or to open what may be damaged: `tsx disk-child.ts FOLDER write FIRST` or `… check COUNT`.
import { DiskStore } from "./disk.ts";

const [folder, task, number] = process.argv.slice(2) as [string, string, string];
const store = await DiskStore.open(folder);
if (task === "write") {
  for (let log = Number(number); ; log++) {
    await store.store(log);
    process.stdout.write(`${log}\n`);
  }
} else {
  const results = [];
  for (let log = 0; log < Number(number); log++) results.push(await store.check(log));
  await store.archive.close();
  process.stdout.write(JSON.stringify(results));
}
