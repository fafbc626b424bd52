import { askOperator } from './ask-operator.ts'
import type { ShownGrant } from '../rules/withdrawals.ts'

/**
 * Runs `SPONSOR CHAIN_ID ADDRESS WEI`: requests a grant from a running signer and prints it. It uses the admin socket, which only
 * the signer's OS user may open. Exit code 1, with a sentence, if the signer refuses or is unavailable.
 */
async function main([sponsor, chainId, to, most]: string[]): Promise<void> {
  const made = await askOperator<ShownGrant>({
    verb: 'grantWithdrawal',
    request: { sponsor, chainId: Number(chainId), to, most },
  })
  const until = new Date(made.expiresAt).toISOString()
  process.stdout.write(
    `${made.grant}  ${made.sponsor} on chain ${made.chainId} to ${made.to}, up to ${made.most} wei including the first fee, until ${until}\n` +
      `To use the grant once: chatelaine sponsor withdraw --grant ${made.grant} …\n`,
  )
}

main(process.argv.slice(2)).catch((error: unknown) => {
  process.stderr.write(`${(error as Error).message}\n`)
  process.exit(1)
})
