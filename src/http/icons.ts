import { readFileSync } from 'node:fs'
import { asset, type StaticAsset } from './asset.ts'

/** Background of the pages, which browsers also give to their own frame: `--paper` in pages.css. */
export const PAPER = { light: '#f5f4f0', dark: '#14161a' }

/** The mark as a picture of 512 × 512 pixels, for systems that show no SVG. */
const ICON = asset('/assets/icon.png', 'image/png', readFileSync(new URL('icon.png', import.meta.url)))

/** A key on a ring. Drawn with attributes only: a `style` would need `unsafe-inline`. */
export function mark(colour: string): string {
  return `<svg class="mark" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" width="24" height="24" fill="none" stroke="${colour}" stroke-width="2" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><circle cx="8" cy="8" r="5"/><path d="M11.6 11.6 21 21M16.5 16.5l2.6-2.6M19.2 19.2l1.9-1.9"/></svg>`
}

const MARK = asset('/assets/mark.svg', 'image/svg+xml', mark('#a97b22'))

/** Icons of an installation in a browser and on a home screen. `touch`: null if the logo is not a PNG */
export type Icons = { icon: StaticAsset; touch: StaticAsset | null; manifest: StaticAsset }

/** Returns the icons of the operator's logo; without a logo, those of the mark. Source: Web Application Manifest §1 */
export function iconsOf(name: string, logo: StaticAsset | null): Icons {
  const touch = logo === null ? ICON : logo.type === 'image/png' ? logo : null
  const icon = logo ?? MARK
  const icons = [...new Set([icon, ...(touch === null ? [] : [touch])])]
  const manifest = {
    name,
    short_name: name,
    start_url: '/account',
    scope: '/',
    display: 'standalone',
    background_color: PAPER.light,
    theme_color: PAPER.light,
    icons: icons.map((one) => ({ src: one.path, type: one.type, ...sizesOf(one) })),
  }
  const content = JSON.stringify(manifest)
  return { icon, touch, manifest: asset('/assets/manifest.webmanifest', 'application/manifest+json', content) }
}

/** Returns the size of a picture as a manifest states it: `any` for SVG, from the header of a PNG, otherwise nothing. */
function sizesOf({ type, content }: StaticAsset): { sizes?: string } {
  if (type === 'image/svg+xml') return { sizes: 'any' }
  if (type !== 'image/png' || typeof content === 'string' || content.length < 24) return {}
  return { sizes: `${content.readUInt32BE(16)}x${content.readUInt32BE(20)}` }
}
