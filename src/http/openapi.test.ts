import assert from 'node:assert/strict'
import { after, before, suite, test } from 'node:test'
import { sql } from 'kysely'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { userPermissions, machinePermissions } from '../applications/permissions.ts'
import { until } from '../../test/kit/until.ts'
import { world, type Answer, type World } from '../../test/world.ts'

type Media = { schema: object; example?: unknown; examples?: Record<string, { value: unknown }> }
type Operation = {
  operationId: string
  security: Record<string, string[]>[]
  parameters?: { name: string; in: string; schema: { type?: string } }[]
  requestBody?: { content: Record<string, Media> }
  responses: Record<string, { $ref?: string; content?: Record<string, Media>; headers?: object }>
}
type Document = {
  paths: Record<string, Record<string, Operation>>
  components: {
    schemas: Record<string, object>
    responses: Record<string, { content: Record<string, Media>; headers: object }>
    headers: Record<string, object>
    securitySchemes: { oauth: { flows: Record<string, { scopes: object }> } }
  }
}

suite('the OpenAPI document', () => {
  let here: World
  let document: Document
  let operations: (Operation & { place: string })[]
  before(async () => {
    here = await world()
    document = (await here.request('/openapi.json')).body
    operations = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({ ...operation, place: `${method} ${path}` })),
    )
  })
  after(() => here.close())

  test('gives every operation an id of its own that is a name in every language', () => {
    const ids = operations.map(({ operationId }) => operationId)
    assert.ok(ids.length >= 36, `${ids.length} operations`)
    for (const id of ids) assert.match(id, /^[a-z][A-Za-z]+$/)
    assert.equal(new Set(ids).size, ids.length)
  })

  test('names what it speaks of, once', () => {
    for (const name of ['User', 'Balance', 'BigNumber', 'Transfer', 'Transaction', 'Problem', 'WriteAnswer'])
      assert.ok(name in document.components.schemas, name)
    const text = JSON.stringify(document)
    assert.equal(text.split('"x-shown-as"').length, 1)
    // What has a name is nowhere written out a second time.
    for (const [name, schema] of Object.entries(document.components.schemas)) {
      const { properties } = schema as { properties?: object }
      if (properties === undefined || Object.keys(properties).length < 2) continue
      assert.equal(text.split(JSON.stringify(properties)).length, 2, name)
    }
  })

  test('tells a write from a dry run: what each always has is required of it', () => {
    const { schemas } = document.components
    const required = (name: string) => (schemas[name] as { required: string[] }).required
    for (const [id, write, rehearsed] of [
      ['writeContract', 'WriteAnswer', 'DryRunAnswer'],
      ['writeContractBatch', 'WriteAnswer', 'DryRunAnswer'],
      ['sendTransaction', 'WriteAnswer', 'DryRunAnswer'],
      ['transferTokens', 'TransferAnswer', 'RehearsedTransfer'],
    ] as const) {
      const { responses } = operations.find(({ operationId }) => operationId === id)!
      const schemaOf = (status: number) => responses[status]!.content!['application/json']!.schema
      const refs = [write, rehearsed].map((name) => ({ $ref: `#/components/schemas/${name}` }))
      assert.deepEqual([schemaOf(200), schemaOf(202)], [{ anyOf: refs }, refs[0]], id)
      for (const name of ['hash', 'id', 'state', 'explorerUrl']) assert.ok(required(write).includes(name), `${write} ${name}`) // prettier-ignore
      for (const name of ['gas', 'fee', 'rule']) assert.ok(required(rehearsed).includes(name), `${rehearsed} ${name}`)
      assert.ok(!('hash' in (schemas[rehearsed] as { properties: object }).properties))
    }
    assert.ok(required('SubmittedTransaction').includes('hash'))
  })

  test('says of every operation which permission opens it', () => {
    const known: string[] = [...userPermissions, ...machinePermissions]
    const { authorizationCode, clientCredentials } = document.components.securitySchemes.oauth.flows
    assert.deepEqual(Object.keys({ ...authorizationCode!.scopes, ...clientCredentials!.scopes }).toSorted(), known.toSorted()) // prettier-ignore
    const of = (id: string) => operations.find(({ operationId }) => operationId === id)!.security
    assert.deepEqual(of('readMe'), [{ oauth: [] }])
    assert.deepEqual(of('listTransfers'), [{ oauth: ['wallet:read'] }, { oauth: ['users:read'] }])
    assert.deepEqual(of('transferTokens'), [{ oauth: ['contracts:write'] }])
    assert.deepEqual(of('suspendApplication'), [{ operator: [] }])
    for (const { security, place } of operations)
      assert.ok(
        security.length > 0 &&
          security.every((one) =>
            Object.values(one)
              .flat()
              .every((scope) => known.includes(scope)),
          ),
        place,
      )
  })

  test('shows an example of every body, and the example is one', () => {
    const ajv = new Ajv2020({ strict: false, validateFormats: false })
    const check = (place: string, { schema, example, examples }: Media) => {
      const shown = examples === undefined ? [example] : Object.values(examples).map(({ value }) => value)
      assert.notEqual(shown[0], undefined, `no example: ${place}`)
      const validate = ajv.compile({ ...schema, components: document.components })
      for (const one of shown) assert.ok(validate(one), `${place}: ${ajv.errorsText(validate.errors)}`)
    }
    for (const { place, requestBody, responses } of operations) {
      for (const media of Object.values(requestBody?.content ?? {})) check(`body of ${place}`, media)
      for (const [status, { content, $ref }] of Object.entries(responses)) {
        assert.equal($ref === undefined, Number(status) < 400, `${place} ${status}`)
        for (const media of Object.values(content ?? {})) check(`${status} of ${place}`, media)
      }
    }
    for (const [name, { content }] of Object.entries(document.components.responses))
      for (const media of Object.values(content)) check(name, media)
  })

  test('names every header that an answer has, and none that no answer has', async () => {
    const limited = await world({ RATE_LIMITS: 'on', READS_BURST: '30', READS_PER_SECOND: '1' })
    const { alice, facts } = limited
    const call = { address: facts.contracts.erc20!, abi: 'totalSupply() public view returns (uint256)' }
    const mint = { address: facts.contracts.erc20!, abi: 'mint(address to, uint256 amount) public', args: [alice.address, '1'] } // prettier-ignore
    const user = '/v1/users/DEV-alice'
    try {
      const written = await alice.post('/v1/contracts/method/write?wait=mined', mint, { 'idempotency-key': 'a' }) // prettier-ignore
      const waited = await alice.post('/v1/contracts/method/write?wait=mined', mint, { prefer: 'wait=9', 'idempotency-key': 'a' }) // prettier-ignore
      const coin = { recipient: alice.address, tokenType: 'NATIVE', amount: '1' }
      assert.equal(waited.status, 200, JSON.stringify([written.body, waited.body]))
      await alice.write(mint)
      // Of who came before the first look at the chain, only what follows is known: then no answer would have that header.
      await limited.app.db
        .updateTable('accounts')
        .set({ created_at: sql<Date>`now()` })
        .execute()
      const page = '?limit=1'
      const answers: [operationId: string, Answer][] = [
        ['writeContract', waited],
        ['readMe', await alice.get('/v1/me')],
        ['readNativeBalance', await alice.get(`${user}/balance`)],
        ['readTokenBalance', await alice.get(`${user}/balance/${call.address}`)],
        ['listBalances', await alice.get(`${user}/balances${page}`)],
        ['listTransfers', await until('it is indexed', async () => { const one = await alice.get(`${user}/history${page}`); return one.headers.has('link') ? one : null })], // prettier-ignore
        ['listTransfers', await until('all of it is looked at', async () => { const one = await alice.get(`${user}/history${page}&include=native`); return one.headers.has('x-native-internal-from-block') ? one : null })], // prettier-ignore
        ['listTransactions', await alice.get(`/v1/transactions${page}`)],
        ['readTransaction', await alice.get(`/v1/transactions/${waited.body.id}?wait=mined`, { prefer: 'wait=1' })],
        ['readContract', await alice.post('/v1/contracts/method/read', call)],
        ['readContracts', await alice.post('/v1/contracts/method/read/batch', { calls: [call] })],
        ['readContract', await alice.post('/v1/contracts/method/read', {})],
        ['transferTokens', await alice.post('/v1/tokens/transfers', coin)],
        ['listUsers', await alice.get('/v1/users')],
        ['readMe', await limited.request('/v1/me')],
        ['readMe', await until('there are too many', async () => { const one = await alice.get('/v1/me'); return one.status === 429 ? one : null })], // prettier-ignore
      ]
      const seen = new Set<string>()
      for (const [id, { status, headers }] of answers) {
        const { $ref, ...own } = operations.find(({ operationId }) => operationId === id)!.responses[status]!
        const described = $ref === undefined ? own : document.components.responses[$ref.split('/').at(-1)!]!
        const names = Object.keys(described.headers ?? {}).map((name) => name.toLowerCase())
        const sent = [...headers.keys()].filter((name) => /^(x-(?!content-type)|ratelimit|retry|www-|content-language|link|location|idempotent|preference)/.test(name)) // prettier-ignore
        for (const name of sent) assert.ok(names.includes(name), `${id} ${status} sends ${name}`)
        for (const name of sent) seen.add(name)
      }
      // What is waited for in vain and what operators make is in tests of its own.
      const unseen = Object.keys(document.components.headers).filter((name) => !seen.has(name.toLowerCase()))
      assert.deepEqual(
        unseen,
        // An account that was made a moment ago does not tell yet from where on it is indexed.
        ['X-Unanswered-Tokens', 'X-Indexed-From-Block', 'X-Total-Count', 'Location'].filter((name) =>
          unseen.includes(name),
        ),
      )
    } finally {
      await limited.close()
    }
  })

  test('shows numbers and yes or no in queries as such, though they are text on the wire', async () => {
    const types = (id: string) =>
      Object.fromEntries(
        (operations.find(({ operationId }) => operationId === id)!.parameters ?? [])
          .filter((one) => one.in === 'query')
          .map(({ name, schema }) => [name, schema.type]),
      )
    const { limit, fromBlock, includeSpam, cursor } = types('listTransfers')
    assert.deepEqual([limit, fromBlock, includeSpam, cursor], ['integer', 'integer', 'boolean', 'string'])
    for (const id of ['listUsers', 'listBalances', 'listTransactions', 'listApplications', 'listActions'])
      assert.equal(types(id).limit, 'integer', id)
    assert.equal((await here.alice.get('/v1/users/DEV-alice/history?limit=200&includeSpam=true&toBlock=0')).status, 200)
    assert.equal((await here.alice.get('/v1/users/DEV-alice/history?limit=201')).status, 400)
  })
})
