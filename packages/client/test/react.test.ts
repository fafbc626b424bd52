import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createElement, type ReactElement } from 'react'
import { createSession } from '../src/browser/index.ts'
import { SignInButton, useSession, useWallet, WalletProvider } from '../src/react/index.ts'
import { sessionOf } from './session-of.ts'

// Its types are no dependency.
const server: string = 'react-dom/server'
const { renderToString } = (await import(server)) as { renderToString(element: ReactElement): string }

const origin = 'https://wallet.example'

function Facts(): ReactElement {
  return createElement('p', null, `${useSession().status}, ${useWallet() === null ? 'no wallet' : 'wallet'}`)
}
const draw = (session: Parameters<typeof WalletProvider>[0]['session']) =>
  renderToString(createElement(WalletProvider, { origin, session }, createElement(Facts), createElement(SignInButton)))

const SESSIONS = [
  ['a browser session', createSession({ origin, clientId: 'demo' })],
  ['a session that is signed in', sessionOf({ token: 'x' }, { isSignedIn: true })],
] as const
for (const [what, session] of SESSIONS)
  test(`${what} is unknown while a server draws it, so that the page can be shared`, () => {
    assert.equal(draw(session), '<p>unknown, no wallet</p><button type="button" disabled="">Sign in</button>')
  })

test('a hook outside of the provider says what is missing', () => {
  assert.throws(() => renderToString(createElement(SignInButton)), /<WalletProvider>/)
})
