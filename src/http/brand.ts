import { readFileSync } from 'node:fs'
import { contrast, mix, readColor, writeColor, type Rgb } from '../color.ts'
import type { Config } from '../config.ts'
import { asset, type StaticAsset } from './asset.ts'
import { iconsOf, type Icons } from './icons.ts'
import { pictureType } from './picture-type.ts'

/** The name, logo, colours and links of an installation, shown on every page. */
export type Brand = {
  name: string
  logo: StaticAsset | null
  /** colours of buttons and links; null: the default */
  stylesheet: StaticAsset | null
  icons: Icons
  links: { support: string | null; privacy: string | null; terms: string | null }
}

type BrandSettings = Pick<Config, 'BRAND_NAME' | 'BRAND_LOGO_FILE' | 'BRAND_COLOR' | 'SUPPORT_URL' | 'PRIVACY_URL' | 'TERMS_URL'> // prettier-ignore

const MAX_LOGO_BYTES = 262_144

/** Reads the brand settings and the logo. @throws Error naming the setting if the logo cannot be used */
export function openBrand(settings: BrandSettings): Brand {
  const { BRAND_NAME, BRAND_LOGO_FILE, BRAND_COLOR, SUPPORT_URL, PRIVACY_URL, TERMS_URL } = settings
  const logo = BRAND_LOGO_FILE === undefined ? null : readLogo(BRAND_LOGO_FILE)
  return {
    name: BRAND_NAME,
    logo,
    icons: iconsOf(BRAND_NAME, logo),
    stylesheet:
      BRAND_COLOR === undefined
        ? null
        : asset('/assets/brand.css', 'text/css; charset=utf-8', stylesheetOf(BRAND_COLOR)),
    links: { support: SUPPORT_URL ?? null, privacy: PRIVACY_URL ?? null, terms: TERMS_URL ?? null },
  }
}

function readLogo(file: string): StaticAsset {
  let content: Buffer
  try {
    content = readFileSync(file)
  } catch (cause) {
    throw new Error('BRAND_LOGO_FILE cannot be read', { cause })
  }
  if (content.length > MAX_LOGO_BYTES) throw new Error('BRAND_LOGO_FILE is larger than 256 KiB')
  const type = typeOf(content)
  if (type === null) throw new Error('BRAND_LOGO_FILE must hold a picture: SVG, PNG, JPEG or WebP')
  return asset('/assets/logo', type, content)
}

function typeOf(content: Buffer): string | null {
  const type = pictureType(content)
  if (type !== null) return type === 'image/gif' ? null : type
  return /^\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*<svg[\s>]/s.test(content.toString('utf8')) ? 'image/svg+xml' : null
}

const BLACK: Rgb = [0, 0, 0]
const WHITE: Rgb = [255, 255, 255]
/** The lightest background in dark mode on which the accent colour is used, in pages.css. */
const DARK_GROUND: Rgb = [0x26, 0x2a, 0x30]
/** Above the 4.5 of WCAG, as a margin for slightly lighter backgrounds. */
const ENOUGH = 5

/**
 * Writes the stylesheet: the colour for light pages, and a shade for dark pages that is as much lighter as its contrast
 * needs.
 */
function stylesheetOf(text: string): string {
  const light = readColor(text)!
  let dark = light
  for (let share = 0; contrast(dark, DARK_GROUND) < ENOUGH; share += 0.05) dark = mix(light, WHITE, share)
  const rule = (accent: Rgb, strong: Rgb, on: string): string =>
    `:root{--accent:${writeColor(accent)};--accent-strong:${writeColor(strong)};--on-accent:${on}}`
  return `${rule(light, mix(light, BLACK, 0.2), '#ffffff')}@media (prefers-color-scheme:dark){${rule(dark, mix(dark, WHITE, 0.3), '#101418')}}\n`
}
