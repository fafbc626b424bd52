import type { FastifyInstance } from 'fastify'
import { html } from 'ghtml'
import type { App } from '../../app.ts'
import { sendPage, textsOf } from '../../http/page.ts'
import type { Texts } from '../../texts/en.ts'
import { userWire } from '../../users/find.ts'
import { ownSignIn } from '../first-party.ts'
import { chainName } from '../page-context.ts'
import { picture } from '../pages.ts'
import { hidden, leaveFor, type AccountDoor } from './access.ts'
import { qrSvg } from './qr.ts'
import { inTabs } from './tabs.ts'

/** Registers the page with the user's address. */
export function receivePage(server: FastifyInstance, app: App, { door }: { door: AccountDoor }): void {
  /** GET /account/receive */
  server.get('/account/receive', hidden, async (request, reply) => {
    const visitor = await door.arrive(request, reply)
    if (visitor === null) return leaveFor(reply, ownSignIn(app.authOrigin, { comesBackTo: 'first' }))
    const words = textsOf(request)
    const { username, address, imageSrc } = userWire(visitor.user)
    const networks = [...app.networks.keys()].map((chainId) => chainName(app, words, chainId))
    const page = receiveBody(words, { username, provider: visitor.user.provider, imageSrc, address, networks })
    return sendPage(reply, 200, {
      words,
      title: words.wallet.receiveTitle,
      ...inTabs(words, 'receive'),
      hasScript: app.authOrigin,
      body: `${await door.noticeFor(visitor, words)}${page}`,
    })
  })
}

type Receiver = { username: string; provider: string; imageSrc: string | null; address: string; networks: string[] }

/** Renders the address as text, as a code to scan, and with the networks on which it is watched. */
export function receiveBody(
  { account: texts, wallet }: Texts,
  { username, provider, imageSrc, address, networks }: Receiver,
): string {
  return html`
    <h1>${wallet.receiveTitle}</h1>
    <section class="card stack" aria-label="${texts.address}">
      <div class="row who">
        !${picture(imageSrc, 'avatar')}
        <p><b>${username}</b> <span class="badge">${provider}</span></p>
      </div>
      <p>${wallet.receiveHint}</p>
      !${qrSvg(address, texts.qrLabel)}
      <div class="field">
        <label for="address">${texts.address}</label>
        <input class="mono" id="address" value="${address}" readonly aria-describedby="address-hint" />
        <small class="hint" id="address-hint">${texts.addressHint}</small>
        <span aria-live="polite"
          ><button class="button" type="button" data-copies="address" data-done="${texts.copied}" hidden>
            ${texts.copy}
          </button></span
        >
      </div>
      !${networks.length === 0 ? '' : html`<p class="notice">${wallet.receiveNetworks(networks.join(', '))}</p>`}
    </section>
  `
}
