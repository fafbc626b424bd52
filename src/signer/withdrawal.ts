import { askOperator } from './ask-operator.ts'
import type { ShownGrant } from './withdrawals.ts'

/**
 * `grant SPONSOR CHAIN_ID ADDRESS WEI`, `grants` and `revoke GRANT`: asks a running signer on its operator's socket, which only the signer's
 * own user may open. Prints the grants, a line each. Ends with 1 and a sentence when the signer refuses or is away.
 */
async function main([verb = '', ...words]: string[]): Promise<void> {
  const [sponsor, chainId, to, most] = words
  if (verb === 'grant') {
    const made = await askOperator<ShownGrant>({
      verb: 'grantWithdrawal',
      request: { sponsor, chainId: Number(chainId), to, most },
    })
    process.stdout.write(`${lineOf(made)}\nUse it once: chatelaine sponsor withdraw --grant ${made.grant} …\n`)
    return
  }
  const { grants } = await askOperator<{ grants: ShownGrant[] }>(
    verb === 'revoke'
      ? { verb: 'revokeWithdrawal', request: { grant: words[0] } }
      : { verb: 'withdrawals', request: {} },
  )
  if (grants.length === 0) process.stdout.write('No withdrawal is granted.\n')
  for (const grant of grants) process.stdout.write(`${lineOf(grant)}\n`)
}

const lineOf = ({ grant, sponsor, chainId, to, most, expiresAt, isUsed }: ShownGrant): string =>
  `${grant}  ${sponsor} on chain ${chainId} to ${to}, up to ${most} wei with its first fee, until ${new Date(expiresAt).toISOString()}${isUsed ? ', used' : ''}`

main(process.argv.slice(2)).catch((error: unknown) => {
  process.stderr.write(`${(error as Error).message}\n`)
  process.exit(1)
})
