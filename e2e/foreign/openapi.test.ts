// tier: all, because it starts the program as its operator does
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, suite, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { createClient } from '@hey-api/openapi-ts'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import spectralCore from '@stoplight/spectral-core'
import spectralRulesets from '@stoplight/spectral-rulesets'
import openapiTS, { astToString } from 'openapi-typescript'
import { generate } from 'orval'
import { world, type World } from '../../test/world.ts'

/** What others' linters and generators make of the OpenAPI document, and whether what they make works. */

const packages = fileURLToPath(new URL('node_modules', import.meta.url))

let here: World
let text: string
before(async () => {
  here = await world()
  text = JSON.stringify((await here.request('/openapi.json')).body)
})
after(() => here.close())

/** The same document as an installation with a name serves it: to linters an address of this machine is a mistake. */
const published = (): string => text.replaceAll(here.facts.origin, 'https://wallet.example.org')

suite('of the OpenAPI document', () => {
  const broken = () => published().replaceAll(/"operationId":"\w+",|"description":"[^"]*",/g, '')

  test('redocly finds neither errors nor warnings', async () => {
    const config = await createConfig({ extends: ['recommended'] })
    const lint = async (source: string) =>
      (await lintFromString({ source, absoluteRef: '/openapi.json', config })).map(
        ({ ruleId, message, location: [at] }) => `${ruleId}: ${message} ${at?.pointer}`,
      )
    assert.deepEqual(await lint(published()), [])
    assert.ok((await lint(broken())).length > 30, 'and it does look')
  })

  test('spectral finds neither errors nor warnings', async () => {
    const spectral = new spectralCore.Spectral()
    spectral.setRuleset({ extends: [spectralRulesets.oas] } as never)
    const lint = async (source: string) =>
      (await spectral.run(JSON.parse(source) as Record<string, unknown>)).map(({ code, message, path }) => `${code}: ${message} ${path.join('/')}`) // prettier-ignore
    assert.deepEqual(await lint(published()), [])
    assert.ok((await lint(broken())).length > 30, 'and it does look')
  })
})

/** One caller for each generator: all do the same, and each must compile in strict mode. */
const CALLERS: Record<string, string> = {
  'openapi-typescript': `
    import createClient from 'openapi-fetch'
    import type { components, paths } from './openapi-typescript/api'
    type Transfer = components['schemas']['Transfer']
    export async function run({ origin, token, user, token20, to }: Given): Promise<Found> {
      const client = createClient<paths>({ baseUrl: origin, headers: { authorization: \`Bearer \${token}\` } })
      const me = await client.GET('/v1/me')
      if (me.error !== undefined) throw new Error(me.error.code)
      const balance = await client.GET('/v1/users/{userId}/balance', { params: { path: { userId: user } } })
      const wrote = await client.POST('/v1/contracts/method/write', {
        params: { query: { wait: 'mined' } },
        body: { address: token20, abi: 'mint(address to, uint256 amount) public', args: [to, '5'] },
      })
      if (wrote.data === undefined) throw new Error(wrote.error.detail)
      if (!('hash' in wrote.data)) throw new Error('a dry run')
      const history = await client.GET('/v1/users/{userId}/history', {
        params: { path: { userId: user }, query: { limit: 1, includeSpam: true, direction: 'in' } },
      })
      const transfers: Transfer[] = history.data ?? []
      const refused = await client.GET('/v1/users/{userId}', { params: { path: { userId: 'DEV-somebody' } } })
      return { id: me.data.id, coin: balance.data?.ETH?.balanceBn.hex, hash: wrote.data.hash, transfers: transfers.length, code: refused.error?.code, status: refused.response.status }
    }`,
  'hey-api': `
    import { createClient, createConfig } from './hey-api/client'
    import { listTransfers, readMe, readNativeBalance, readUser, writeContract } from './hey-api'
    import type { Problem, Transfer } from './hey-api'
    export async function run({ origin, token, user, token20, to }: Given): Promise<Found> {
      const client = createClient(createConfig({ baseUrl: origin, auth: () => token }))
      const me = await readMe({ client, throwOnError: true })
      const balance = await readNativeBalance({ client, path: { userId: user }, throwOnError: true })
      const wrote = await writeContract({
        client,
        query: { wait: 'mined' },
        body: { address: token20, abi: 'mint(address to, uint256 amount) public', args: [to, '5'] },
        throwOnError: true,
      })
      if (!('hash' in wrote.data)) throw new Error('a dry run')
      const history = await listTransfers({ client, path: { userId: user }, query: { limit: 1, includeSpam: true, direction: 'in' }, throwOnError: true })
      const transfers: Transfer[] = history.data
      const refused = await readUser({ client, path: { userId: 'DEV-somebody' } })
      const problem: Problem | undefined = refused.error
      return { id: me.data.id, coin: balance.data.ETH?.balanceBn.hex, hash: wrote.data.hash, transfers: transfers.length, code: problem?.code, status: problem?.status }
    }`,
  orval: `
    import { listTransfers, readMe, readNativeBalance, readUser, writeContract } from './orval/api'
    import type { Transfer } from './orval/api'
    export async function run({ token, user, token20, to }: Given): Promise<Found> {
      const headers = { authorization: \`Bearer \${token}\` }
      const me = await readMe({ headers })
      if (me.status !== 200) throw new Error(me.data.code)
      const balance = await readNativeBalance(user, { headers })
      if (balance.status !== 200) throw new Error(balance.data.detail)
      const wrote = await writeContract(
        { address: token20, abi: 'mint(address to, uint256 amount) public', args: [to, '5'] },
        { wait: 'mined' },
        { headers },
      )
      if (wrote.status !== 200 && wrote.status !== 202) throw new Error(wrote.data.detail)
      if (!('hash' in wrote.data)) throw new Error('a dry run')
      const history = await listTransfers(user, { limit: 1, includeSpam: true, direction: 'in' }, { headers })
      const transfers: Transfer[] = history.status === 200 ? history.data : []
      const refused = await readUser('DEV-somebody', { headers })
      const code = refused.status === 403 ? refused.data.code : undefined
      return { id: me.data.id, coin: balance.data.ETH?.balanceBn.hex, hash: wrote.data.hash, transfers: transfers.length, code, status: refused.status }
    }`,
}
const GIVEN = `
    type Given = { origin: string; token: string; user: string; token20: string; to: string }
    type Found = { id: string; coin: string | undefined; hash: string; transfers: number; code: string | undefined; status: number | undefined }`
type Found = { id: string; coin: string; hash: string; transfers: number; code: string; status: number }

suite('a client made from the OpenAPI document', () => {
  let folder: string
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'chatelaine-generated-'))
    await symlink(packages, join(folder, 'node_modules'))
    await writeFile(join(folder, 'openapi.json'), text)
    for (const name of Object.keys(CALLERS)) {
      await mkdir(join(folder, name))
      await writeFile(join(folder, `call-${name}.ts`), CALLERS[name]! + GIVEN)
    }
    await writeFile(join(folder, 'openapi-typescript/api.ts'), astToString(await openapiTS(text)))
    await createClient({
      input: JSON.parse(text),
      output: { path: join(folder, 'hey-api'), module: { extension: null } },
      logs: { level: 'silent' },
      plugins: ['@hey-api/client-fetch', '@hey-api/typescript', '@hey-api/sdk'],
    } as never)
    await generate({
      input: { target: join(folder, 'openapi.json') },
      output: { target: join(folder, 'orval/api.ts'), client: 'fetch', baseUrl: here.facts.origin },
    })
  })
  after(() => rm(folder, { recursive: true, force: true }))

  test('compiles in strict mode, by all three generators', async () => {
    const compilerOptions = {
      strict: true,
      noUncheckedIndexedAccess: true,
      target: 'es2022',
      lib: ['es2022', 'dom', 'dom.iterable'],
      module: 'commonjs',
      moduleResolution: 'node10',
      esModuleInterop: true,
      types: [],
      outDir: 'made',
    }
    const files = Object.keys(CALLERS).map((name) => `call-${name}.ts`)
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }))
    const child = spawn(process.execPath, [join(packages, 'typescript/bin/tsc')], { cwd: folder })
    let told = ''
    child.stdout.on('data', (chunk: Buffer) => (told += chunk.toString()))
    const [code] = (await once(child, 'close')) as [number]
    assert.equal(code, 0, told)
  })

  for (const name of Object.keys(CALLERS))
    test(`${name}: profile, balance, a write, the history and a refusal come with their types`, async () => {
      const { run } = createRequire(import.meta.url)(join(folder, 'made', `call-${name}.js`)) as {
        run: (given: object) => Promise<Found>
      }
      const person = await here.person(name)
      const token20 = here.facts.contracts.erc20
      const given = {
        origin: here.facts.origin,
        token: person.token,
        user: person.userId,
        token20,
        to: here.bob.address,
      }
      const { id, coin, hash, transfers, code, status } = await run(given)
      assert.deepEqual([id, code, status, transfers], [person.userId, 'forbidden_user', 403, 0])
      assert.match(coin, /^0x([0-9a-f]{2})+$/)
      assert.match(hash, /^0x[0-9a-f]{64}$/)
    })
})
