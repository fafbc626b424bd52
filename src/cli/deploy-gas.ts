import { readFile, stat } from 'node:fs/promises'
import type { Command } from 'commander'
import { readAddress } from '../abi/address.ts'
import { checksumAddress } from '../digits.ts'
import { addressOf, deployGas, DeployRefusal } from '../gas/deploy.ts'
import { isDelegateName, type Hex } from '../ids.ts'
import { openCurve } from '../secp256k1.ts'
import { whoElseReads } from '../secret-file.ts'
import { withInstallation } from './installation.ts'
import { facts, print, type JsonOption } from './print.ts'
import { inShell, type Shell } from './shell.ts'
import { systemClock } from '../clock.ts'
import { collect } from './options.ts'

type DeployOptions = JsonOption & {
  keyFile: string
  delegate?: string
  sponsor?: string[]
  acceptUnaudited?: boolean
}

/** Chain ids of development nodes, on which nothing has value. */
const DEVELOPMENT_CHAIN_IDS = [1_337, 31_337, 31_338]
const PAUSE_MS = 500

/** Adds `chatelaine network deploy-gas`: deploys the contracts with which sponsors pay for gas. */
export function addDeployGas(command: Command, shell: Shell): void {
  command
    .command('deploy-gas <name>')
    .description('deploy the contracts of sponsored gas, or check the deployed ones: docs/operate/gas/sponsored.md')
    .requiredOption(
      '--key-file <file>',
      'file with the private key that pays, 64 hexadecimal digits; its address is the space',
    )
    .option('--sponsor <address>', 'sponsor that may send operations of this space; repeat for several', collect)
    .option(
      '--delegate <name>',
      'code for accounts: `chatelaine` (our own) or `calibur` (only its dispatcher is deployed); default: chatelaine',
    )
    .option('--accept-unaudited', 'the contracts are not audited; required except on development networks')
    .option('--json', 'print JSON')
    .action(inShell(shell, run))
}

async function run(shell: Shell, name: string, given: DeployOptions): Promise<void> {
  const sponsors = (given.sponsor ?? []).map(readAddress)
  const { delegate = 'chatelaine' } = given
  if (!isDelegateName(delegate)) throw new Error('The delegate must be `chatelaine` or `calibur`.')
  const key = await readKey(given.keyFile)
  await withInstallation(shell, name, async ({ chain: { chainId, rpc } }) => {
    if (given.acceptUnaudited !== true && !DEVELOPMENT_CHAIN_IDS.includes(chainId))
      throw new Error(
        `The contracts are not audited, and ${name} is not a development network. To deploy them anyway, add --accept-unaudited.`,
      )
    const ask = <T>(method: string, params: unknown[]): Promise<T> => rpc.call<T>(method, params, { alone: true })
    const asked = { chainId, key, name: delegate, sponsors, ask, pause: () => systemClock.sleep(PAUSE_MS) }
    const deployed = await deployGas(asked).catch((error: unknown) => {
      // A plain Error, because only these are shown with their message (main.ts).
      throw error instanceof DeployRefusal ? new Error(error.message, { cause: error }) : error
    })
    const addresses = {
      dispatcher: checksumAddress(deployed.dispatcher),
      delegate: checksumAddress(deployed.delegate),
      space: checksumAddress(addressOf(key)),
    }
    const done = { name, chainId, ...addresses, sponsors, sent: deployed.sent }
    print(shell, given, done, describe(done))
  })
}

function describe(done: {
  name: string
  dispatcher: Hex
  delegate: Hex
  space: Hex
  sponsors: Hex[]
  sent: Hex[]
}): string {
  const { name, dispatcher, delegate, space, sponsors, sent } = done
  const said = sent.length === 0 ? `All contracts exist on ${name}.` : `Deployed on ${name}.`
  return `${said} The deployed code matches the repository, and a simulated operation succeeded.\n\n${facts([
    ['Dispatcher', dispatcher],
    ['Delegate', delegate],
    ['Space', space],
    ['Sponsors allowed', sponsors],
    ['Transactions', sent],
  ])}`
}

/** Reads a private key. @throws Error  if others can read the file, or it is not a key; never with its contents */
async function readKey(file: string): Promise<Buffer> {
  const others = whoElseReads(await stat(file))
  if (others !== null) throw new Error(`The key in ${file} can be read by ${others}. Run chmod 600 on it.`)
  const digits = (await readFile(file, 'utf8')).trim().replace(/^0x/, '')
  const key = Buffer.from(/^[0-9a-fA-F]{64}$/.test(digits) ? digits : '', 'hex')
  if (key.length !== 32 || !openCurve().isScalar(key))
    throw new Error(`${file} is not a private key: expected 64 hexadecimal digits.`)
  return key
}
