import { contrast, readColor } from './color.ts'

/** Background of light pages: `--paper` in pages.css. */
const PAPER = readColor('#f5f4f0')!
/** Minimum contrast of text. Source: WCAG 2.2, success criterion 1.4.3 */
const MIN_CONTRAST = 4.5

/** Returns the problems of the page settings (brand and links), one line each. */
export function brandProblems(config: PageSettings): string[] {
  const problems: string[] = []
  const { BRAND_NAME, BRAND_COLOR } = config
  if (BRAND_NAME.trim() === '' || BRAND_NAME.length > 40 || /\p{Cc}/u.test(BRAND_NAME))
    problems.push('BRAND_NAME must be 1 to 40 characters')
  const color = BRAND_COLOR === undefined ? null : readColor(BRAND_COLOR)
  if (BRAND_COLOR !== undefined && color === null) problems.push('BRAND_COLOR must be a colour as #rrggbb')
  if (color !== null && contrast(color, PAPER) < MIN_CONTRAST)
    problems.push(
      `BRAND_COLOR is too light for light pages: its contrast is ${contrast(color, PAPER).toFixed(1)}, at least ${MIN_CONTRAST} is needed`,
    )
  for (const key of ['SUPPORT_URL', 'PRIVACY_URL', 'TERMS_URL'] as const)
    if (config[key] !== undefined && !config[key].startsWith('https://')) problems.push(`${key} must be an https URL`)
  return problems
}

type PageSettings = { BRAND_NAME: string } & Record<
  'BRAND_COLOR' | 'SUPPORT_URL' | 'PRIVACY_URL' | 'TERMS_URL',
  string | undefined
>
