// tier: all, because it starts the program as its operator does
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { makeCertificate, noCertificates } from '../test/certificate.ts'
import { testCluster } from '../test/kit/database.ts'
import { until } from '../test/kit/until.ts'
import { noMachine, openMachine, type Machine } from './debian/machine.ts'

/**
 * docs/operate/debian.md, run as it is written: every block in its order, by whom it names, on a machine that is made
 * for it and thrown away. Not as written: packages are those of this machine, systemd is e2e/debian/systemctl, and the
 * certificate is made here, for both proxies. What is committed is what is installed.
 */
const ROOT = fileURLToPath(new URL('..', import.meta.url))
// It brings a PostgreSQL of its own: once is enough where the suite runs on both databases.
const skip = testCluster === null ? 'runs with TEST_DATABASE_URL' : noMachine !== false ? noMachine : noCertificates
const AUTHORITY = '/etc/ssl/certs/mine.pem'
const LIVE = '/etc/letsencrypt/live/wallet.example'
const noCaddy = skip !== false ? skip : existsSync('/usr/bin/caddy') ? false : 'needs caddy'

type Block = { by: string; code: string }

let machine: Machine
let guide: string
let operator: string | undefined
const told: string[] = []

before(async () => {
  if (skip !== false) return
  guide = await readFile(join(ROOT, 'docs/operate/debian.md'), 'utf8')
  machine = await openMachine()
  const { key, cert } = await makeCertificate('wallet.example', 'idp.example', 'sepolia-node.example')
  await machine.write(`${LIVE}/fullchain.pem`, cert)
  await machine.write(`${LIVE}/privkey.pem`, key, '600')
  await machine.write(AUTHORITY, cert)
  await machine.write('/srv/outside/cert.pem', cert)
  await machine.write('/srv/outside/key.pem', key)
  // What the packages start by themselves.
  await machine.sh('pg_lsclusters -h | grep -q . || pg_createcluster "$(ls /usr/lib/postgresql | tail -n 1)" main')
  await machine.sh('pg_ctlcluster "$(ls /usr/lib/postgresql | tail -n 1)" main start')
  await machine.write(
    '/etc/nginx/sites-enabled/default',
    `server {
       listen 443 ssl; server_name sepolia-node.example;
       ssl_certificate ${LIVE}/fullchain.pem; ssl_certificate_key ${LIVE}/privkey.pem;
       location = /v2/KEY { proxy_pass http://127.0.0.1:8545/; }
     }`,
  )
  await machine.sh('nginx')
  await machine.start([process.execPath, join(ROOT, 'e2e/debian/outside.ts'), '/srv/outside'])
})
after(() => machine?.close())

test(
  'the guide from nothing to production, as it is written, ends with a sign-in through the TLS proxy',
  { skip },
  async () => {
    const before = (heading: string) => guide.slice(0, guide.indexOf(`\n## ${heading}\n`))
    await play(before('Units'))
    // The prose between: the list of providers, and the authority of the node and the provider.
    const acme = { name: 'ACME', label: 'Acme', issuer: 'https://idp.example:8443', clientId: 'wallet', clientSecret: 'of the wallet', allowPrivate: true } // prettier-ignore
    await machine.write('/etc/chatelaine/providers.json', JSON.stringify([acme]), '600')
    await machine.sh('chown chatelaine:chatelaine /etc/chatelaine/providers.json')
    operator = /(\S+)\n\nThe token is shown only once/.exec(told.join('\n'))?.[1]

    await play(before('The proxy').slice(before('Units').length))
    assert.match(told.at(-1)!, /"status":\s*"ready"|ready/, told.at(-1))
    const proxy = /```nginx\n([\s\S]*?)```/.exec(guide)![1]!
    await machine.write('/etc/nginx/sites-enabled/wallet', proxy)
    await machine.sh('nginx -s reload')
    await signsInAndGuards()

    await isHealthy()

    // Two users: what each may open, and nobody else.
    for (const [user, path] of [
      ['chatelaine', '/etc/chatelaine-signer/kek'],
      ['chatelaine', '/var/lib/chatelaine-signer/store/signer.sqlite'],
      ['chatelaine-signer', '/etc/chatelaine/auth-keys.json'],
      ['postgres', '/etc/chatelaine/server.env'],
      ['postgres', '/run/chatelaine-signer/signer.sock'],
    ] as const)
      await assert.rejects(machine.sh(`cat ${path} >/dev/null`, user), /Permission denied/, `${user} ${path}`)

    const rest = guide.slice(before('Upgrade').length)
    await play(rest)
    await until('it is back after the upgrade', async () => (await through('/readyz').catch(() => '')).endsWith(' 200'))
    assert.match(
      await machine.sh('pg_restore --list /var/lib/postgresql/chatelaine.dump'),
      /TABLE DATA public transactions/,
    )
    assert.match(await machine.sh('tar -tf /root/chatelaine-signer-store.tar'), /^store\/\S+/m)
    const logs = await machine.sh('cat /var/log/chatelaine.log /var/log/chatelaine-signer.log')
    assert.doesNotMatch(logs, /"level":[56]0/)
    assert.ok(operator !== undefined && !logs.includes(operator))
  },
)

test('the guide’s Caddyfile, as it is written, ends with a sign-in through it, too', { skip: noCaddy }, async () => {
  const site = /```caddy\n([\s\S]*?)```/.exec(guide)![1]!
  // Nobody gives out certificates here: one that is loaded for another site is taken for each of its names.
  const node = `sepolia-node.example {
      tls ${LIVE}/fullchain.pem ${LIVE}/privkey.pem
      rewrite /v2/KEY /
      reverse_proxy 127.0.0.1:8545
    }\n`
  await machine.write('/etc/caddy/Caddyfile', site + node)
  await machine.sh('nginx -s stop')
  await until('nginx is gone', async () => (await machine.sh('pidof nginx || echo none')).trim() === 'none')
  await machine.sh('cd /etc/caddy && caddy validate >/dev/null 2>&1 && caddy start >/var/log/caddy.log 2>&1 </dev/null')
  await signsInAndGuards()
  await isHealthy()
  await machine.sh('caddy stop 2>/dev/null')
})

const through = (path: string, options = '') => machine.sh(`curl -sS --cacert ${AUTHORITY} ${options} -w ' %{http_code}' https://wallet.example${path}`) // prettier-ignore

/** What either proxy is there for. */
async function signsInAndGuards(): Promise<void> {
  await until('the proxy passes on', async () => (await through('/healthz').catch(() => '')).endsWith(' 200'))
  const me = JSON.parse(await machine.sh(`NODE_EXTRA_CA_CERTS=${AUTHORITY} ${process.execPath} ${join(ROOT, 'e2e/debian/visit.ts')}`)) // prettier-ignore
  assert.deepEqual([me.id, me.provider, me.username, me.network], ['ACME-4711', 'ACME', 'Nell', 'sepolia'])

  // The operator API is for the inner network.
  for (const path of ['/operator/v1/networks', '/%6fperator/v1/networks', '/./operator/v1/networks'])
    assert.match(await through(path, '--path-as-is'), / (403|404)$/, path)
  const inside = `--interface 10.0.0.1 -H 'Authorization: Bearer ${operator}'`
  assert.match(await through('/operator/v1/networks', inside), /"name":"sepolia".* 200$/)
}

/** The doctor of each user finds nothing through either proxy, but that nobody has made a backup. */
async function isHealthy(): Promise<void> {
  const codesOf = async (user: string, settings: string) => {
    const said = await machine.sh(`set -a; . ${settings}; chatelaine doctor --json || test $? = 1`, user)
    return (JSON.parse(said) as { code: string }[]).map(({ code }) => code)
  }
  assert.deepEqual(await codesOf('chatelaine', '/etc/chatelaine/server.env'), ['backups_not_checked'])
  assert.deepEqual(await codesOf('chatelaine-signer', '/etc/chatelaine-signer/signer.env'), [])
}

async function play(text: string): Promise<void> {
  for (const { by, code } of blocksOf(text)) {
    if (by.startsWith('root: ')) {
      const more = by.endsWith('/server.env') ? `NODE_EXTRA_CA_CERTS=${AUTHORITY}\n` : ''
      await machine.write(by.slice('root: '.length), code + more)
    } else told.push(await machine.sh(code, by))
  }
}

const blocksOf = (text: string): Block[] =>
  [...text.matchAll(/<!-- (\S[^>]*?) -->\n```\w+\n([\s\S]*?)```/g)].map(([, by, code]) => ({ by: by!, code: code! }))
