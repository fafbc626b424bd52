/** A browser and the system it runs on, by the names people know; as it says of itself, which proves nothing. */
export type BrowserName = { browser: string | null; system: string | null }

/** The first that is found: others name those below as what they are compatible with. */
const BROWSERS: [RegExp, string][] = [
  [/\bEdg(e|A|iOS)?\//, 'Edge'],
  [/\bOPR\//, 'Opera'],
  [/\bSamsungBrowser\//, 'Samsung Internet'],
  [/\b(Firefox|FxiOS)\//, 'Firefox'],
  [/\b(Chrome|CriOS|HeadlessChrome)\//, 'Chrome'],
  [/\bVersion\/.*\bSafari\//, 'Safari'],
]
const SYSTEMS: [RegExp, string][] = [
  [/\b(iPhone|iPod)\b/, 'iPhone'],
  [/\biPad\b/, 'iPad'],
  [/\bAndroid\b/, 'Android'],
  [/\bWindows\b/, 'Windows'],
  [/\bMac OS X\b|\bMacintosh\b/, 'macOS'],
  [/\bCrOS\b/, 'ChromeOS'],
  [/\bLinux\b|\bX11\b/, 'Linux'],
]
const MAX_CHARACTERS = 1_000

/** Of a `User-Agent` no more is kept than these two names: versions would tell who someone is. */
export function browserNameOf(userAgent: string): BrowserName {
  const text = userAgent.slice(0, MAX_CHARACTERS)
  const first = (names: [RegExp, string][]): string | null => names.find(([pattern]) => pattern.test(text))?.[1] ?? null
  return { browser: first(BROWSERS), system: first(SYSTEMS) }
}
