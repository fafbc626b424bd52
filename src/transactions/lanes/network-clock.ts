import type { App } from '../../app.ts'
import type { Chain } from '../../chain/network.ts'
import { AppError } from '../../errors.ts'

/**
 * Returns the current Unix time of a network, seconds, for operations' deadlines. It is the newest block's time plus
 * the time since then, or this machine's clock if that is later.
 * If the machine's clock alone were used and slow, an operation could expire before it can be mined. If it is fast,
 * operations live longer by the difference.
 */
export function networkSeconds({ clock }: Pick<App, 'clock'>, { head }: Pick<Chain, 'head'>): number {
  const here = Math.floor(clock.wall() / 1_000)
  const newest = head.current()
  return newest === null ? here : Math.max(here, newest.timestamp + Math.floor(head.sinceChangeMs() / 1_000))
}

/**
 * Adds the times of the network and the server to an error that reports the signer's clock as slow, and logs it.
 * Returns other errors unchanged.
 */
export function namingClocks(
  { clock, telemetry }: Pick<App, 'clock' | 'telemetry'>,
  { chainId, name, head }: Pick<Chain, 'chainId' | 'name' | 'head'>,
  error: unknown,
): unknown {
  if (!(error instanceof AppError) || error.code !== 'clocks_apart') return error
  const newest = head.current()
  const network = newest === null ? null : new Date(newest.timestamp * 1_000).toISOString()
  const server = new Date(clock.wall()).toISOString()
  telemetry.log.error('clocks_apart', { chainId, network, server, signer: error.message })
  const ofNetwork = network === null ? '' : `The newest block of ${name} is of ${network}. `
  const detail = `${error.message} ${ofNetwork}The server’s clock reads ${server}. Nothing was signed. An operator must correct the clocks.`
  return new AppError('clocks_apart', detail, { retryAfter: 60, cause: error })
}
