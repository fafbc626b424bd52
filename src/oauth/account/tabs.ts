import { html } from 'ghtml'
import type { PageParts } from '../../http/page.ts'
import type { Texts } from '../../texts/en.ts'

/** The tabs of the account pages, in their order: name, path, and the paths of a 24 × 24 drawing. */
const TABS = [
  ['balance', '/account', 'M4 7.5A2.5 2.5 0 0 1 6.5 5H18v3M4 7.5V17a2 2 0 0 0 2 2h14V8H6.5M16.5 13.5h.01'],
  ['send', '/account/send', 'M5 19 19 5M9 5h10v10'],
  ['receive', '/account/receive', 'M19 5 5 19M15 19H5V9'],
  ['activity', '/account/activity', 'M4 6h16M4 12h16M4 18h10'],
  ['applications', '/account/applications', 'M4 4h6v6H4zM14 4h6v6h-6zM4 14h6v6H4zM14 14h6v6h-6z'],
  ['security', '/account/security', 'M12 3 5 6v5c0 4.5 2.9 8.2 7 10 4.1-1.8 7-5.5 7-10V6zM9 12l2 2 4-4'],
] as const

export type AccountTab = (typeof TABS)[number][0]

/** Returns the parts that all account pages share: the layout and the tabs, of which `current` is marked. */
export const inTabs = (words: Texts, current: AccountTab): Pick<PageParts, 'layout' | 'tabs'> => ({
  layout: 'wallet',
  tabs: html`<nav class="tabs" aria-label="${words.around.account}">
    !${TABS.map(
      ([name, href, drawing]) =>
        html`<a href="${href}" !${name === current ? 'aria-current="page"' : ''}
          ><svg
            viewBox="0 0 24 24"
            width="22"
            height="22"
            fill="none"
            stroke="currentColor"
            stroke-width="2"
            stroke-linecap="round"
            stroke-linejoin="round"
            aria-hidden="true"
          >
            <path d="${drawing}" /></svg
          ><span>${words.wallet.tabs[name]}</span></a
        >`,
    ).join('')}
  </nav>`,
})
