// tier: all, because it starts the program as its operator does, and a bundler
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { Page } from 'playwright-core'
import { verifyMessage } from 'viem/utils'
import { deploy } from '../src/devnet/deploy.ts'
import { en } from '../src/texts/en.ts'
import { approveIn, installationAndBrowser, signInAs, skip } from './chromium.ts'
import { missing } from './foreign/missing.ts'

/** `examples/react-wagmi`, with the packages of e2e/foreign, and with the connector as a wallet of RainbowKit. */

const root = fileURLToPath(new URL('..', import.meta.url))
const example = join(root, 'examples/react-wagmi')
const foreign = join(root, 'e2e/foreign/node_modules')
const TOKEN_SECONDS = 5
const opened = installationAndBrowser({ ACCESS_TOKEN_SECONDS: String(TOKEN_SECONDS) })
const skipped = skip || missing('vite', join(foreign, 'vite/package.json'))

let folder: string
let url: string
const server = createServer(async ({ url: path = '/' }, response) => {
  const type = /\.(js|css)$/.exec(path)?.[1]
  response.setHeader('content-type', { js: 'text/javascript', css: 'text/css' }[type ?? ''] ?? 'text/html')
  const page = path.startsWith('/rainbow') ? 'rainbow.html' : 'index.html'
  response.end(await readFile(join(folder, 'site/dist', type === undefined ? page : path)))
})

before(async () => {
  if (skipped !== false) return
  folder = await mkdtemp(join(tmpdir(), 'chatelaine-react-'))
  const client = join(folder, 'client')
  const site = join(folder, 'site')
  await symlink(foreign, join(folder, 'node_modules'))
  execFileSync(join(root, 'node_modules/.bin/tsc'), ['-p', join(root, 'packages/client/tsconfig.build.json'), '--outDir', join(client, 'dist')]) // prettier-ignore
  await cp(join(root, 'packages/client/package.json'), join(client, 'package.json'))
  await cp(example, site, { recursive: true, filter: (path) => !/node_modules|dist$|\.env/.test(path) })
  await mkdir(join(site, 'node_modules/@chatelaine'), { recursive: true })
  await symlink(client, join(site, 'node_modules/@chatelaine/client'))
  await symlink(join(root, 'node_modules/@types'), join(site, 'node_modules/@types'))
  await writeFile(join(site, 'rainbow.html'), '<main id="page"></main><script type="module" src="/src/rainbow.tsx"></script>') // prettier-ignore
  await writeFile(join(site, 'src/rainbow.tsx'), RAINBOW)
  await writeFile(join(site, 'both.config.ts'), BOTH)
  const { rpcUrl, origin } = opened.program.facts
  const [sold, bought, router] = await deploy(rpcUrl, ['PermitToken', 'SampleToken', 'SwapRouter'])
  execFileSync(join(foreign, '.bin/tsc'), ['-p', '.'], { cwd: site, stdio: ['ignore', 'inherit', 'inherit'] })
  execFileSync(process.execPath, [join(foreign, 'vite/bin/vite.js'), 'build', '--config', 'both.config.ts', '--logLevel', 'error'], {
    cwd: site,
    stdio: ['ignore', 'inherit', 'inherit'],
    env: { ...process.env, VITE_ORIGIN: origin, VITE_SOLD: sold, VITE_BOUGHT: bought, VITE_ROUTER: router },
  }) // prettier-ignore
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
after(async () => {
  server.close()
  server.closeAllConnections()
  if (folder !== undefined) await rm(folder, { recursive: true, force: true })
})

/** Both pages in one build. */
const BOTH = `import config from './vite.config.ts'
export default { ...config, build: { minify: false, rollupOptions: { input: ['index.html', 'rainbow.html'] } } }`

/** The connector in a list of wallets of RainbowKit, with two networks of the installation. */
const RAINBOW = `import '@rainbow-me/rainbowkit/styles.css'
import { chatelaine } from '@chatelaine/client/wagmi'
import { createProvider } from '@chatelaine/client/provider'
import { ConnectButton, connectorsForWallets, RainbowKitProvider, type Wallet } from '@rainbow-me/rainbowkit'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { createRoot } from 'react-dom/client'
import { defineChain } from 'viem'
import { foundry } from 'viem/chains'
import { createConfig, createConnector, custom, useAccount, useSendTransaction, useSignMessage, WagmiProvider } from 'wagmi'
import { session } from './wallet.ts'

const origin = import.meta.env.VITE_ORIGIN as string
const other = defineChain({ ...foundry, id: 31_338, name: 'Other' })
const networks = { [foundry.id]: { origin, session }, [other.id]: { origin, session } }
const provider = createProvider({ networks })
const wallet = (): Wallet => ({
  id: 'chatelaine',
  name: 'Connector',
  iconUrl: 'data:,',
  iconBackground: 'teal',
  createConnector: (details) => createConnector((config) => ({ ...chatelaine({ provider })(config), ...details })),
})
const config = createConfig({
  chains: [foundry, other],
  connectors: connectorsForWallets([{ groupName: 'Ours', wallets: [wallet] }], { appName: 'Shop', projectId: 'none' }),
  transports: { [foundry.id]: custom(provider), [other.id]: custom(provider) },
  multiInjectedProviderDiscovery: false,
})
function Acts() {
  const { address, chainId } = useAccount()
  const { sendTransaction, data: hash } = useSendTransaction()
  const { signMessage, data: signature } = useSignMessage()
  return <>
    <p id="facts">{[address, chainId, hash, signature].join(' ')}</p>
    <button onClick={() => sendTransaction({ to: address, value: 1n })}>Send</button>
    <button onClick={() => signMessage({ message: 'I accept the terms.' })}>Sign</button>
  </>
}
createRoot(document.getElementById('page')!).render(
  <WagmiProvider config={config}>
    <QueryClientProvider client={new QueryClient()}>
      <RainbowKitProvider><ConnectButton /><Acts /></RainbowKitProvider>
    </QueryClientProvider>
  </WagmiProvider>,
)`

/** Opens a page, and collects the errors that it shows nobody. */
async function open(path: string): Promise<{ page: Page; errors: string[] }> {
  const context = await opened.browser.newContext()
  const page = await context.newPage()
  const errors: string[] = []
  page.on('pageerror', ({ message }) => errors.push(message))
  await page.goto(`${url}${path}`)
  return { page, errors }
}

/** Chooses a wallet in the window of RainbowKit, and signs in. */
async function connect(page: Page, wallet: string, username: string): Promise<void> {
  await page.getByTestId('rk-connect-button').click()
  const [popup] = await Promise.all([page.waitForEvent('popup'), page.getByRole('button', { name: wallet }).click()])
  await signInAs(popup, username)
  await Promise.all([popup.waitForEvent('close'), popup.getByRole('button', { name: en.consent.allow, exact: true }).click()]) // prettier-ignore
  await page.getByTestId('rk-account-button').waitFor()
}

async function disconnect(page: Page): Promise<void> {
  await page.getByTestId('rk-account-button').click()
  await page.getByTestId('rk-disconnect-button').click()
  await page.getByTestId('rk-connect-button').waitFor()
}

test('the example signs in, and swaps with a permit after the end of its access token', { skip: skipped }, async () => {
  const { page, errors } = await open('/')
  await connect(page, 'Example Wallet', 'iris')
  const held = (text: string) => page.getByRole('status').getByText(text, { exact: true }).waitFor()
  await held('0 PRMT, 0 SMPL')
  await page.getByRole('button', { name: 'Mint 10 PRMT' }).click()
  await held('10 PRMT, 0 SMPL')
  const renewals: string[] = []
  page.on('request', (request) => request.postData()?.includes('grant_type=refresh_token') && renewals.push(request.url())) // prettier-ignore
  // The service's clock decides when a token ends.
  await page.waitForTimeout((TOKEN_SECONDS + 1) * 1_000)
  await page.getByRole('button', { name: 'Swap 4 PRMT' }).click()
  await held('6 PRMT, 8 SMPL')
  assert.notEqual(renewals.length, 0)
  await page.reload()
  await held('6 PRMT, 8 SMPL')
  await page.screenshot({ path: join(opened.folder, 'react-wagmi.png') })
  await disconnect(page)
  await page.getByText('Connect a wallet').waitFor()
  await page.reload()
  await page.getByTestId('rk-connect-button').waitFor()
  assert.deepEqual(errors, [])
  await page.context().close()
})

test(
  'RainbowKit connects, reloads, sends, signs, switches and disconnects with the connector',
  { skip: skipped },
  async () => {
    const { page, errors } = await open('/rainbow')
    await connect(page, 'Connector', 'jonas')
    const facts = async (pattern: RegExp): Promise<string[]> => {
      const found = page.locator('#facts').filter({ hasText: pattern })
      await found.waitFor()
      return (await found.innerText()).split(' ')
    }
    await facts(/^0x\w{40} 31337/)
    await page.reload()
    await facts(/^0x\w{40} 31337/)
    await page.getByRole('button', { name: 'Send', exact: true }).click()
    await facts(/^0x\w{40} 31337 0x\w{64}/)
    const [popup] = await Promise.all([page.waitForEvent('popup'), page.getByRole('button', { name: 'Sign', exact: true }).click()]) // prettier-ignore
    await approveIn(popup)
    const [address, , , signature] = await facts(/0x\w{130}$/)
    assert.ok(await verifyMessage({ address: address as `0x${string}`, message: 'I accept the terms.', signature: signature as `0x${string}` })) // prettier-ignore
    await page.getByTestId('rk-chain-button').click()
    await page.getByTestId('rk-chain-option-31338').click()
    await facts(/^0x\w{40} 31338/)
    await disconnect(page)
    await page.locator('#facts').filter({ hasNotText: address! }).waitFor()
    await page.reload()
    await page.getByTestId('rk-connect-button').waitFor()
    assert.deepEqual(errors, [])
    await page.context().close()
  },
)
