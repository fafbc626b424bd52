/** `outside.ts FOLDER`: what the machine of the guide would find outside: a node of Sepolia and an identity provider. */
import { spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { findAnvil } from '../../src/devnet/anvil-binary.ts'
import { startAcme } from '../acme.ts'

const folder = process.argv[2]!
const [key, cert] = await Promise.all(['key.pem', 'cert.pem'].map((name) => readFile(join(folder, name))))
await startAcme({ host: 'idp.example', port: 8443, certificate: { key: key!, cert: cert! } })
// Behind the proxy's https, under the number of Sepolia.
const words = ['--host', '127.0.0.1', '--port', '8545', '--chain-id', '11155111', '--block-time', '1']
const chain = spawn(findAnvil(), words, { stdio: ['ignore', 'pipe', 'inherit'] })
for await (const chunk of chain.stdout.iterator({ destroyOnReturn: false }))
  if (String(chunk).includes('Listening on')) break
chain.stdout.resume()
console.log('ready')
