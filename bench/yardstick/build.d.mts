/** Path of the driver; builds what is missing. */
export function yardstick(level?: "native" | "avx2"): string;
