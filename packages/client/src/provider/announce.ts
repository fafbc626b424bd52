import type { Provider } from './provider.ts'

/** Entry in a list of wallets. `icon`: a data URI; `rdns`: the domain of the installation, reversed. */
export type WalletInfo = { name: string; icon: string; rdns: string; uuid?: string }

/**
 * Announces a provider to the page, so that libraries list it among the wallets of the browser (EIP-6963).
 * @returns a function that stops the announcements
 */
export function announce(provider: Provider, { uuid = crypto.randomUUID(), ...info }: WalletInfo): () => void {
  const detail = Object.freeze({ info: Object.freeze({ uuid, ...info }), provider })
  const say = () => void globalThis.dispatchEvent(new CustomEvent('eip6963:announceProvider', { detail }))
  globalThis.addEventListener('eip6963:requestProvider', say)
  say()
  return () => globalThis.removeEventListener('eip6963:requestProvider', say)
}
