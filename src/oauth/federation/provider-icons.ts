import { html } from 'ghtml'
import type { ProviderSettings } from './providers.ts'

/**
 * The logos of identity providers by issuer, so that a provider found by discovery has its logo too. They are drawn
 * with attributes only, because a `style` would need `unsafe-inline`. Each is its owner's trade mark. It is shown as
 * the owner requires on a sign-in button: unchanged, in its own colours or in one.
 * Source: developers.google.com/identity/branding-guidelines, Microsoft's "Sign-in with Microsoft: Branding
 * guidelines"; the logos of one colour from Simple Icons (CC0 1.0)
 */
const SIGNS = new Map<string, string>([
  [
    'https://accounts.google.com',
    sign(48, [
      [
        '#EA4335',
        'M24 9.5c3.54 0 6.71 1.22 9.21 3.6l6.85-6.85C35.9 2.38 30.47 0 24 0 14.62 0 6.51 5.38 2.56 13.22l7.98 6.19C12.43 13.72 17.74 9.5 24 9.5z',
      ],
      [
        '#4285F4',
        'M46.98 24.55c0-1.57-.15-3.09-.38-4.55H24v9.02h12.94c-.58 2.96-2.26 5.48-4.78 7.18l7.73 6c4.51-4.18 7.09-10.36 7.09-17.65z',
      ],
      [
        '#FBBC05',
        'M10.53 28.59c-.48-1.45-.76-2.99-.76-4.59s.27-3.14.76-4.59l-7.98-6.19C.92 16.46 0 20.12 0 24c0 3.88.92 7.54 2.56 10.78l7.97-6.19z',
      ],
      [
        '#34A853',
        'M24 48c6.48 0 11.93-2.13 15.89-5.81l-7.73-6c-2.15 1.45-4.92 2.3-8.16 2.3-6.26 0-11.57-4.22-13.47-9.91l-7.98 6.19C6.51 42.62 14.62 48 24 48z',
      ],
    ]),
  ],
  [
    'https://login.microsoftonline.com',
    sign(21, [
      ['#F25022', 'M1 1h9v9H1z'],
      ['#7FBA00', 'M11 1h9v9h-9z'],
      ['#00A4EF', 'M1 11h9v9H1z'],
      ['#FFB900', 'M11 11h9v9h-9z'],
    ]),
  ],
  [
    'https://appleid.apple.com',
    sign(24, [
      [
        'currentColor',
        'M12.152 6.896c-.948 0-2.415-1.078-3.96-1.04-2.04.027-3.91 1.183-4.961 3.014-2.117 3.675-.546 9.103 1.519 12.09 1.013 1.454 2.208 3.09 3.792 3.039 1.52-.065 2.09-.987 3.935-.987 1.831 0 2.35.987 3.96.948 1.637-.026 2.676-1.48 3.676-2.948 1.156-1.688 1.636-3.325 1.662-3.415-.039-.013-3.182-1.221-3.22-4.857-.026-3.04 2.48-4.494 2.597-4.559-1.429-2.09-3.623-2.324-4.39-2.376-2-.156-3.675 1.09-4.61 1.09zM15.53 3.83c.843-1.012 1.4-2.427 1.245-3.83-1.207.052-2.662.805-3.532 1.818-.78.896-1.454 2.338-1.273 3.714 1.338.104 2.715-.688 3.559-1.701z',
      ],
    ]),
  ],
  [
    'urn:chatelaine:preset:github',
    sign(16, [
      [
        'currentColor',
        'M8 0C3.58 0 0 3.58 0 8c0 3.54 2.29 6.53 5.47 7.59.4.07.55-.17.55-.38 0-.19-.01-.82-.01-1.49-2.01.37-2.53-.49-2.69-.94-.09-.23-.48-.94-.82-1.13-.28-.15-.68-.52-.01-.53.63-.01 1.08.58 1.23.82.72 1.21 1.87.87 2.33.66.07-.52.28-.87.51-1.07-1.78-.2-3.64-.89-3.64-3.95 0-.87.31-1.59.82-2.15-.08-.2-.36-1.02.08-2.12 0 0 .67-.21 2.2.82.64-.18 1.32-.27 2-.27.68 0 1.36.09 2 .27 1.53-1.04 2.2-.82 2.2-.82.44 1.1.16 1.92.08 2.12.51.56.82 1.27.82 2.15 0 3.07-1.87 3.75-3.65 3.95.29.25.54.73.54 1.48 0 1.07-.01 1.93-.01 2.2 0 .21.15.46.55.38A8.013 8.013 0 0016 8c0-4.42-3.58-8-8-8z',
      ],
    ]),
  ],
  [
    'https://id.twitch.tv',
    sign(24, [
      [
        '#9146FF',
        'M11.571 4.714h1.715v5.143H11.57zm4.715 0H18v5.143h-1.714zM6 0L1.714 4.286v15.428h5.143V24l4.286-4.286h3.428L22.286 12V0zm14.571 11.143l-3.428 3.428h-3.429l-3 3v-3H6.857V1.714h13.714z',
      ],
    ]),
  ],
  [
    'urn:chatelaine:preset:x',
    sign(24, [
      [
        'currentColor',
        'M18.244 2.25h3.308l-7.227 8.26 8.502 11.24H16.17l-5.214-6.817L4.99 21.75H1.68l7.73-8.835L1.254 2.25H8.08l4.713 6.231zm-1.161 17.52h1.833L7.084 4.126H5.117z',
      ],
    ]),
  ],
  [
    'urn:chatelaine:preset:linkedin',
    sign(24, [
      [
        '#0A66C2',
        'M20.447 20.452h-3.554v-5.569c0-1.328-.027-3.037-1.852-3.037-1.853 0-2.136 1.445-2.136 2.939v5.667H9.351V9h3.414v1.561h.046c.477-.9 1.637-1.85 3.37-1.85 3.601 0 4.267 2.37 4.267 5.455v6.286zM5.337 7.433c-1.144 0-2.063-.926-2.063-2.065 0-1.138.92-2.063 2.063-2.063 1.14 0 2.064.925 2.064 2.063 0 1.139-.925 2.065-2.064 2.065zm1.782 13.019H3.555V9h3.564v11.452zM22.225 0H1.771C.792 0 0 .774 0 1.729v20.542C0 23.227.792 24 1.771 24h20.451C23.2 24 24 23.227 24 22.271V1.729C24 .774 23.2 0 22.222 0h.003z',
      ],
    ]),
  ],
  [
    'urn:chatelaine:preset:discord',
    sign(24, [
      [
        '#5865F2',
        'M20.317 4.37a19.79 19.79 0 0 0-4.885-1.515.074.074 0 0 0-.079.037c-.21.375-.444.865-.608 1.25a18.27 18.27 0 0 0-5.487 0 12.6 12.6 0 0 0-.617-1.25.077.077 0 0 0-.079-.037A19.74 19.74 0 0 0 3.677 4.37a.07.07 0 0 0-.032.028C.533 9.046-.32 13.58.099 18.058a.082.082 0 0 0 .031.056 19.9 19.9 0 0 0 5.993 3.03.078.078 0 0 0 .084-.028c.462-.63.874-1.295 1.226-1.994a.076.076 0 0 0-.041-.106 13.1 13.1 0 0 1-1.873-.892.077.077 0 0 1-.007-.128c.126-.094.252-.192.372-.291a.074.074 0 0 1 .077-.01c3.928 1.793 8.18 1.793 12.062 0a.074.074 0 0 1 .078.009c.12.099.246.198.373.293a.077.077 0 0 1-.006.127 12.3 12.3 0 0 1-1.873.892.077.077 0 0 0-.041.107c.36.698.772 1.363 1.225 1.993a.076.076 0 0 0 .084.029 19.84 19.84 0 0 0 6.003-3.03.077.077 0 0 0 .031-.055c.5-5.177-.838-9.674-3.549-13.66a.061.061 0 0 0-.031-.03zM8.02 15.331c-1.183 0-2.157-1.086-2.157-2.419s.955-2.419 2.157-2.419c1.21 0 2.176 1.095 2.157 2.419 0 1.333-.956 2.419-2.157 2.419zm7.975 0c-1.183 0-2.157-1.086-2.157-2.419s.955-2.419 2.157-2.419c1.21 0 2.176 1.095 2.157 2.419 0 1.333-.946 2.419-2.157 2.419z',
      ],
    ]),
  ],
])

const GOOGLE = 'https://accounts.google.com'

/** Returns whether a button must follow Google's guidelines. */
export const isGoogle = ({ issuer }: Pick<ProviderSettings, 'issuer'>): boolean => issuer === GOOGLE

/**
 * Returns the logo of a provider as SVG, or else the first letter of its label. Screen readers skip it: the text beside
 * it says the same.
 */
export function providerIcon({ issuer, label }: Pick<ProviderSettings, 'issuer' | 'label'>): string {
  const found = SIGNS.get(issuer) ?? SIGNS.get(URL.canParse(issuer) ? new URL(issuer).origin : '')
  const [first = '?'] = label.trim()
  return found ?? html`<span class="initial" aria-hidden="true">${first.toUpperCase()}</span>`
}

function sign(size: number, paths: [colour: string, path: string][]): string {
  const drawn = paths.map(([colour, path]) => `<path fill="${colour}" d="${path}"/>`)
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${size} ${size}" width="20" height="20" aria-hidden="true">${drawn.join('')}</svg>`
}
