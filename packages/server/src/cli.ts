#!/usr/bin/env node
import { main } from "./cli/main.ts";

// Native threads may outlive the last promise; the exit code says that all is done.
process.exit(await main(process.argv.slice(2), { input: process.stdin, output: process.stdout, errors: process.stderr }));
