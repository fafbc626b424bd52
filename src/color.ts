/** An sRGB colour, each component 0 to 255. */
export type Rgb = [red: number, green: number, blue: number]

/** Parses `#rrggbb`. Returns null for any other text. */
export function readColor(text: string): Rgb | null {
  if (!/^#[\da-f]{6}$/i.test(text)) return null
  return [1, 3, 5].map((at) => Number.parseInt(text.slice(at, at + 2), 16)) as Rgb
}

export const writeColor = (color: Rgb): string => `#${color.map((part) => part.toString(16).padStart(2, '0')).join('')}`

/**
 * Returns the contrast ratio of two colours, 1 to 21. Text needs at least 4.5.
 * Source: WCAG 2.2, contrast ratio and relative luminance, success criterion 1.4.3
 */
export function contrast(one: Rgb, other: Rgb): number {
  const [low, high] = [luminance(one), luminance(other)].toSorted((a, b) => a - b) as [number, number]
  return (high + 0.05) / (low + 0.05)
}

function luminance(color: Rgb): number {
  const [red, green, blue] = color.map((part) => {
    const value = part / 255
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
  }) as Rgb
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
}

/** Mixes two colours: `share` of `into`, the rest of `color`. */
export const mix = (color: Rgb, into: Rgb, share: number): Rgb =>
  color.map((part, index) => Math.round(part * (1 - share) + into[index]! * share)) as Rgb
