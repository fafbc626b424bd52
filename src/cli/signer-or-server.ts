import { readSome, type Environment } from '../config.ts'
import { connectSigner, type Signer } from '../signer-wire/client.ts'
import type { RootDb } from '../store/db.ts'
import { withDatabaseOrServer } from './database.ts'
import type { AskOperator } from './reach.ts'

/** Works on database and signer, or through the running server if that holds the embedded database. */
export async function withSignerOrServer<T>(
  env: Environment,
  work: (signer: Signer, db: RootDb) => Promise<T>,
  through: (ask: AskOperator) => Promise<T>,
): Promise<T> {
  const {
    SIGNER_SOCKET,
    SIGNER_AUTH_SOCKET,
    SIGNER_KEY: verifierKey,
  } = readSome(env, ['SIGNER_SOCKET', 'SIGNER_AUTH_SOCKET', 'SIGNER_KEY'])
  const path = SIGNER_AUTH_SOCKET ?? SIGNER_SOCKET
  return withDatabaseOrServer(
    env,
    async (db) => {
      if (path === undefined)
      throw new Error('SIGNER_SOCKET is missing. Set it, or start the server: this command then uses the server’s signer.') // prettier-ignore
      const signer = connectSigner({ path, verifierKey })
      try {
        return await work(signer, db)
      } finally {
        signer.close()
      }
    },
    through,
  )
}
