import { connect } from 'node:net'
import { ConfigError, readConfig } from '../../config.ts'
import { adminSocketIn } from '../socket.ts'
import { encodeFrame, frameReader } from '../../signer-wire/frames.ts'
import { type AnswerFrame } from '../../signer-wire/wire.ts'

const ANSWER_MS = 10_000

/** Sends a request to a running signer on its admin socket, which only the signer's OS user may open. @throws Error  a sentence */
export async function askOperator<T>(question: { verb: string; request: object }): Promise<T> {
  const config = readConfig({ ...process.env, NODE_ENV: '' }, 'signer')
  const path = config.SIGNER_ADMIN_SOCKET ?? (config.SIGNER_DIR && adminSocketIn(config.SIGNER_DIR))
  if (path === undefined) throw new ConfigError(['SIGNER_DIR is missing: the socket is in it'])
  return askAt<T>(path, question)
}

/** Sends a request to the socket at a path; it times out after 10 s. @throws Error  a sentence */
export function askAt<T>(path: string, question: { verb: string; request: object }): Promise<T> {
  return new Promise((resolve, reject) => {
    const socket = connect(path)
    const end = (error: Error) => {
      socket.destroy()
      reject(error)
    }
    socket.setTimeout(ANSWER_MS, () => end(new Error('The signer does not respond.')))
    socket.on('error', ({ code }: NodeJS.ErrnoException) =>
      end(
        new Error(
          code === 'EACCES'
            ? 'The socket belongs to the signer’s user. Run this as that user.'
            : `No signer listens at ${path}.`,
        ),
      ),
    )
    // A signer that ends during the request sends no answer.
    socket.on('close', () => end(new Error('The signer ended before it responded.')))
    const read = frameReader((message) => {
      const frame = message as AnswerFrame
      if ('error' in frame) return end(new Error(frame.error.detail))
      socket.end()
      resolve(frame.answer as T)
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
