import { connect } from 'node:net'
import { ConfigError, readConfig } from '../config.ts'
import type { FrozenList } from './freezes.ts'
import { adminSocketIn } from './socket.ts'
import { encodeFrame, frameReader, type AnswerFrame } from './wire.ts'

/**
 * `freeze|unfreeze SUBJECT…` and `frozen`: asks a running signer on its operator's socket, which only the signer's own user
 * may open. Prints what is frozen then, a line each. Ends with 1 and a sentence when the signer refuses or is away.
 */
async function main([verb = '', ...words]: string[]): Promise<void> {
  const config = readConfig(process.env, 'signer')
  const path = config.SIGNER_ADMIN_SOCKET ?? (config.SIGNER_DIR && adminSocketIn(config.SIGNER_DIR))
  if (path === undefined) throw new ConfigError(['SIGNER_DIR is missing: the socket is in it'])
  const { subjects, total } = await ask(path, { verb, request: verb === 'frozen' ? {} : { subject: words.join(' ') } })
  if (total === 0) process.stdout.write('Nothing is frozen.\n')
  for (const { subject, by, at } of subjects) {
    const whose = by === 'admin' ? 'frozen here' : 'frozen by the server'
    process.stdout.write(`${subject}  ${whose}, since ${new Date(at).toISOString()}\n`)
  }
  if (total > subjects.length) process.stdout.write(`and ${total - subjects.length} more, frozen by the server\n`)
}

const ANSWER_MS = 10_000

function ask(path: string, question: { verb: string; request: object }): Promise<FrozenList> {
  return new Promise((resolve, reject) => {
    const socket = connect(path)
    const end = (error: Error) => {
      socket.destroy()
      reject(error)
    }
    socket.setTimeout(ANSWER_MS, () => end(new Error('The signer does not answer.')))
    socket.on('error', ({ code }: NodeJS.ErrnoException) =>
      end(
        new Error(
          code === 'EACCES'
            ? 'The socket belongs to the signer: run this as its user.'
            : `No signer listens at ${path}.`,
        ),
      ),
    )
    const read = frameReader((message) => {
      const frame = message as AnswerFrame
      if ('error' in frame) return end(new Error(frame.error.detail))
      socket.end()
      resolve(frame.answer as FrozenList)
    })
    socket.on('data', (chunk) => {
      try {
        read(chunk)
      } catch (error) {
        end(error as Error)
      }
    })
    socket.write(encodeFrame({ id: 1, ...question }))
  })
}

main(process.argv.slice(2)).catch((error: unknown) => {
  process.stderr.write(`${(error as Error).message}\n`)
  process.exit(1)
})
