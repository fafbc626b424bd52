/** A browser and its operating system by their common names, as the browser reports them: unverified. */
export type BrowserName = { browser: string | null; system: string | null }

/** The first match counts: these browsers also name the ones below, for compatibility. */
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

/** Extracts two names from a `User-Agent`. Nothing else is stored: versions could identify the user. */
export function browserNameOf(userAgent: string): BrowserName {
  const text = userAgent.slice(0, MAX_CHARACTERS)
  const first = (names: [RegExp, string][]): string | null => names.find(([pattern]) => pattern.test(text))?.[1] ?? null
  return { browser: first(BROWSERS), system: first(SYSTEMS) }
}
