import { askOperator } from './ask-operator.ts'
import type { FrozenList } from '../tokens/freezes.ts'

/**
 * `freeze|unfreeze SUBJECT…` and `frozen`: asks a running signer on its operator's socket, which only the signer's own user
 * may open. Prints what is frozen then, a line each. Ends with 1 and a sentence when the signer refuses or is away.
 */
async function main([verb = '', ...words]: string[]): Promise<void> {
  const { subjects, total } = await askOperator<FrozenList>({
    verb,
    request: verb === 'frozen' ? {} : { subject: words.join(' ') },
  })
  if (total === 0) process.stdout.write('Nothing is frozen.\n')
  for (const { subject, by, at } of subjects) {
    const whose = by === 'admin' ? 'frozen here' : 'frozen by the server'
    process.stdout.write(`${subject}  ${whose}, since ${new Date(at).toISOString()}\n`)
  }
  if (total > subjects.length) process.stdout.write(`and ${total - subjects.length} more, frozen by the server\n`)
}

main(process.argv.slice(2)).catch((error: unknown) => {
  process.stderr.write(`${(error as Error).message}\n`)
  process.exit(1)
})
