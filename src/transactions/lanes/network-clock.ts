import type { App } from '../../app.ts'
import type { Chain } from '../../chain/network.ts'
import { AppError } from '../../errors.ts'

/**
 * Seconds since 1970 on a network, by which the last second of an operation is meant: those of its newest block and what passed since, or this
 * machine's, whichever is later. A clock that is slow here would have what is answered be over before it can be mined; one that is fast makes
 * operations live longer by so much.
 */
export function networkSeconds({ clock }: Pick<App, 'clock'>, { head }: Pick<Chain, 'head'>): number {
  const here = Math.floor(clock.wall() / 1_000)
  const newest = head.current()
  return newest === null ? here : Math.max(here, newest.timestamp + Math.floor(head.sinceChangeMs() / 1_000))
}

/** An error that the signer's clock is behind those of the network or the server gets the times of those, and a log line. Any other stays as it is. */
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
