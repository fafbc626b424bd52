import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ConfigError, readConfig } from './config.ts'

/** What production must have, whatever else a case sets. */
const PRODUCTION = {
  NODE_ENV: 'production',
  PUBLIC_ORIGIN: 'https://wallet.example',
  DATABASE_URL: 'postgres://db.example/x',
  SIGNER_SOCKET: '/run/chatelaine/signer.sock',
  AUTH_KEYS_FILE: '/etc/chatelaine/auth-keys.json',
  PROVIDERS_FILE: '/etc/chatelaine/providers.json',
  NETWORKS_FILE: '/etc/chatelaine/networks.json',
  TRUST_PROXY: '1',
}

const problemsOf = (env: Record<string, string>): string[] => {
  try {
    readConfig(env, 'server')
    return []
  } catch (error) {
    return (error as ConfigError).problems
  }
}

test('production names every setting that is missing at once, and repeats no value of one that is wrong', () => {
  const missing = problemsOf({ NODE_ENV: 'production' }).filter((problem) => / is missing/.test(problem))
  const required = ['PUBLIC_ORIGIN', 'DATABASE_URL', 'SIGNER_SOCKET', 'AUTH_KEYS_FILE', 'PROVIDERS_FILE', 'TRUST_PROXY']
  for (const name of required)
    assert.ok(
      missing.some((problem) => problem.startsWith(`${name} `)),
      name,
    )
  const wrong = problemsOf({ NODE_ENV: 'production', RATE_LIMITS: 'off', DATABASE_POOL: 'hunter2secret' }).join('\n')
  for (const name of [...required, 'RATE_LIMITS', 'DATABASE_POOL']) assert.ok(wrong.includes(`${name} `), name)
  assert.doesNotMatch(wrong, /hunter2secret/)
  assert.deepEqual(problemsOf(PRODUCTION), [])
})

test('TRUST_PROXY is a number of proxies or their addresses; on and off are refused with what to say instead', () => {
  const read = (TRUST_PROXY: string) => readConfig({ ...PRODUCTION, TRUST_PROXY }, 'server').TRUST_PROXY
  assert.equal(read('1'), 1)
  assert.equal(read('0'), 0)
  assert.deepEqual(read('10.0.0.0/8, 192.0.2.7 ::1'), ['10.0.0.0/8', '192.0.2.7', '::1'])
  assert.equal(readConfig({}, 'server').TRUST_PROXY, undefined)
  for (const wrong of [
    'on',
    'off',
    'true',
    '-1',
    '17',
    '10.0.0.0/33',
    '300.1.1.1',
    '10.0.0.0/0',
    '::/0',
    'loopback',
    ',',
    '1,2',
    '2001:db8::/129',
    '10.0.0.0/8/9',
  ]) {
    const problems = problemsOf({ ...PRODUCTION, TRUST_PROXY: wrong })
    assert.equal(problems.length, 1, wrong)
    assert.match(problems[0]!, /^TRUST_PROXY must be the number of proxies in front of the server .*or their addresses/)
  }
})

test('development is for this machine: what lets others in is refused, each by name, unless it is told so', () => {
  const reaching: Record<string, string> = {
    HOST: '0.0.0.0',
    PUBLIC_ORIGIN: 'https://wallet.example',
    TRUST_PROXY: '1',
    SIGNER_SOCKET: '/run/chatelaine/signer.sock',
  }
  for (const [name, value] of Object.entries(reaching)) {
    for (const NODE_ENV of ['development', 'test', '']) {
      const problems = problemsOf({ NODE_ENV, [name]: value })
      assert.equal(problems.length, 1, `${NODE_ENV} ${name}`)
      assert.match(problems[0]!, new RegExp(`^${name} .*development.*DEVELOPMENT_OPEN_TO=everyone`))
    }
    assert.deepEqual(problemsOf({ DEVELOPMENT_OPEN_TO: 'everyone', [name]: value }), [])
  }
  assert.equal(problemsOf(reaching).length, 4)
  for (const origin of ['http://localhost:4000', 'http://127.0.0.1:4000', 'http://[::1]:4000'])
    assert.deepEqual(problemsOf({ PUBLIC_ORIGIN: origin }), [], origin)
  assert.deepEqual(problemsOf({ TRUST_PROXY: '0' }), [])
  for (const proxies of ['2', '127.0.0.1', '10.0.0.0/8, ::1'])
    assert.match(problemsOf({ TRUST_PROXY: proxies }).join(), /^TRUST_PROXY cannot be used/, proxies)
})

test('production says how many proxies stand before it: without, all clients would share the limits of one address', () => {
  assert.match(problemsOf({ ...PRODUCTION, TRUST_PROXY: '' }).join(), /^TRUST_PROXY is missing/)
  assert.deepEqual(problemsOf({ ...PRODUCTION, TRUST_PROXY: '0' }), [])
})

test('production refuses the word that opens development', () => {
  assert.deepEqual(problemsOf(PRODUCTION), [])
  assert.match(problemsOf({ ...PRODUCTION, DEVELOPMENT_OPEN_TO: 'everyone' }).join(), /^DEVELOPMENT_OPEN_TO cannot be/)
})

test('OPS_LISTEN is an address with a port', () => {
  const read = (OPS_LISTEN: string) => readConfig({ ...PRODUCTION, OPS_LISTEN }, 'server').OPS_LISTEN
  assert.deepEqual(read('127.0.0.1:9464'), { host: '127.0.0.1', port: 9464 })
  assert.deepEqual(read('[::1]:9464'), { host: '::1', port: 9464 })
  for (const wrong of ['9464', '127.0.0.1', 'example.com:1', '127.0.0.1:65536', ':9464', '::1:9464'])
    assert.match(
      problemsOf({ ...PRODUCTION, OPS_LISTEN: wrong }).join(),
      /^OPS_LISTEN must be an address and a port/,
      wrong,
    )
})

test('a name that is all but a setting’s is refused in production; what others put there is not looked at', () => {
  for (const [name, meant] of [
    ['RATE_LIMIT', 'RATE_LIMITS'],
    ['FEE_CAP', 'FEE_CAP_GWEI'],
    ['TRUSTPROXY', 'TRUST_PROXY'],
    ['BRAND_COLOUR', 'BRAND_COLOR'],
    ['READS_PRE_SECOND', 'READS_PER_SECOND'],
    ['MAX_QUEUED_WRITEZ', 'MAX_QUEUED_WRITES'],
    ['rate_limits', 'RATE_LIMITS'],
  ] as const) {
    assert.deepEqual(problemsOf({ ...PRODUCTION, [name]: '5' }), [
      `${name} is not a setting, but ${meant} is: correct it, or remove it`,
    ])
    assert.deepEqual(problemsOf({ [name]: '5' }), [], `${name} in development`)
    assert.deepEqual(problemsOf({ ...PRODUCTION, [name]: '' }), [], `${name} without a value`)
  }
  const signer = { SIGNER_DIR: '/var/lib/signer', SIGNER_MAX_FEE: '5' }
  assert.throws(() => readConfig(signer, 'signer'), /SIGNER_MAX_FEE is not a setting, but SIGNER_MAX_FEE_WEI is/)
  const others = ['SIGNER_PORT', 'SIGNER_SERVICE_HOST', 'DATABASE_HOST', 'DATABASE', 'PATH', 'HOSTNAME', 'XDG_DATA_DIRS', 'PORTS', 'ACCESS_TOKEN', 'OPERATOR_TOKEN', 'NODE_EXTRA_CA_CERTS', 'npm_config_port'] // prettier-ignore
  assert.deepEqual(problemsOf({ ...PRODUCTION, ...Object.fromEntries(others.map((name) => [name, 'x'])) }), [])
})

test('two listeners of one installation have two ports', () => {
  const OPS = /^OPS_LISTEN must have another port than PORT/
  assert.match(problemsOf({ ...PRODUCTION, PORT: '4100', OPS_LISTEN: '127.0.0.1:4100' }).join(), OPS)
  assert.match(problemsOf({ ...PRODUCTION, PORT: '4100', OPS_LISTEN: '0.0.0.0:4100' }).join(), OPS)
  assert.deepEqual(problemsOf({ ...PRODUCTION, PORT: '4100', HOST: '10.0.0.7', OPS_LISTEN: '127.0.0.1:4100' }), [])
  assert.deepEqual(problemsOf({ ...PRODUCTION, PORT: '0', OPS_LISTEN: '127.0.0.1:0' }), [])
  assert.deepEqual(problemsOf({ PORT: '4100', CHAIN_PORT: '4100' }), ['CHAIN_PORT must be another port than PORT'])
})

test('what is missing is said in a clause, with its unit and default, and where the guide is', () => {
  for (const problem of problemsOf({ NODE_ENV: 'production', DATABASE_POOL: 'x' })) {
    assert.ok(problem.length < 300, problem)
    assert.doesNotMatch(problem, /;/, problem)
  }
  assert.throws(() => readConfig({ NODE_ENV: 'production' }, 'server'), /\nAll settings: docs\/reference\/configuration\.md\..*docs\/operate\/deploy\.md\.$/) // prettier-ignore
})

test('the life of a session is a time that there is', () => {
  const tooLong = { ...PRODUCTION, SESSION_SECONDS: '999999999999999' }
  assert.deepEqual(problemsOf(tooLong), [
    'SESSION_SECONDS must be at most 315360000: Lifetime of a browser session (seconds, default 1209600)',
  ])
})

test('two programs: the API needs no secret of the authorization server, that no node, and each is told what it lacks', () => {
  const { AUTH_KEYS_FILE, PROVIDERS_FILE, SIGNER_SOCKET, NETWORKS_FILE, ...both } = PRODUCTION
  const apart = { ...both, AUTH_SOCKET: '/run/chatelaine-auth/auth.sock', AUTH_ORIGIN: 'https://sign-in.example' }
  const api = { ...apart, SIGNER_SOCKET, NETWORKS_FILE, AUTH_JWKS_FILE: '/var/lib/chatelaine-auth/jwks.json' }
  const auth = {
    ...apart,
    AUTH_KEYS_FILE,
    PROVIDERS_FILE,
    SIGNER_AUTH_SOCKET: '/run/chatelaine-signer-auth/signer.sock',
  }
  assert.deepEqual(problemsOf(api), [])
  assert.equal(readConfig(auth, 'auth').API_URL, 'http://127.0.0.1:4000')

  const namesOf = (work: () => unknown): string[] => {
    try {
      work()
      return []
    } catch (error) {
      return (error as ConfigError).problems.map((problem) => problem.split(' ', 1)[0]!)
    }
  }
  assert.deepEqual(namesOf(() => readConfig({ ...both, AUTH_SOCKET: apart.AUTH_SOCKET }, 'server')), ['SIGNER_SOCKET', 'AUTH_JWKS_FILE', 'AUTH_ORIGIN', 'RPC_URL']) // prettier-ignore
  assert.deepEqual(namesOf(() => readConfig(both, 'auth')), ['SIGNER_AUTH_SOCKET', 'AUTH_KEYS_FILE', 'AUTH_SOCKET', 'AUTH_ORIGIN', 'PROVIDERS_FILE']) // prettier-ignore
  for (const [AUTH_ORIGIN, problem] of [
    ['https://wallet.example', /must be on another host than PUBLIC_ORIGIN/],
    ['https://wallet.example:8443', /must be on another host than PUBLIC_ORIGIN/],
    ['http://sign-in.example', /must be https in production/],
    ['https://sign-in.example/pages', /must be an origin without a path/],
  ] as const)
    assert.match(problemsOf({ ...api, AUTH_ORIGIN }).join(), problem, AUTH_ORIGIN)
  assert.match(problemsOf({ ...PRODUCTION, AUTH_ORIGIN: 'https://sign-in.example' }).join(), /^AUTH_SOCKET is missing/)
})

test('development is one process, whatever its database', () => {
  assert.match(
    problemsOf({ AUTH_SOCKET: '/tmp/auth.sock' }).join(),
    /^AUTH_SOCKET is for production: development runs everything in one process/,
  )
  assert.throws(() => readConfig({}, 'auth'), /NODE_ENV must be production/)
})
