import type { App } from '../app.ts'
import type { Hex } from '../ids.ts'

/**
 * Reads the rule that allowed each signature of a transaction or operation, by hash, from the signer's ledger. A rejected request has
 * no record: its caller and the log have the rule.
 * @returns null if the signer does not respond
 */
export async function readRules(
  { signer, telemetry }: Pick<App, 'signer' | 'telemetry'>,
  { userId, intentId }: { userId: string; intentId: string },
): Promise<Map<Hex, string> | null> {
  try {
    const { signatures } = await signer.signatures({ userId, intentId })
    return new Map(signatures.filter(({ kind }) => kind !== 'authorization').map(({ hash, rule }) => [hash, rule]))
  } catch (error) {
    telemetry.log.debug('signer_not_seen', {}, error)
    return null
  }
}
