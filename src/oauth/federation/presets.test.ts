import assert from 'node:assert/strict'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { testDatabase } from '../../../test/kit/database.ts'
import { presets } from './presets.ts'
import { bindProviders, readProviders, type ProviderSettings } from './providers.ts'
import { authorizationUrl, rehearse, type Rehearsal } from '../../../test/rehearsal.ts'
import { openBrowser, textOf, type Page } from '../../../test/kit/browser.ts'
import { applePrivateKey, standIn, type StandIn } from '../../../test/provider-stand-in.ts'

const client = { clientId: 'our client', clientSecret: 'our secret' }

/** What a person of each provider looks like to us: the shapes are those of the providers' own documentation. */
const cases: Record<
  keyof typeof presets,
  {
    host: string
    said: Record<string, unknown>
    asked: Record<string, string | null>
    kept: {
      subject: string
      username: string
      image_src: string | null
      email: string | null
      email_verified: boolean | null
    }
  }
> = {
  google: {
    host: 'accounts.google.com',
    said: {
      azp: 'our client',
      sub: '110169484474386276334',
      name: 'Jo Example',
      given_name: 'Jo',
      family_name: 'Example',
      picture: 'https://lh3.example/a/photo=s96-c',
      email: 'jo@gmail.example',
      email_verified: true,
    },
    asked: { scope: 'openid profile email', prompt: 'select_account', login_hint: 'jo' },
    kept: {
      subject: '110169484474386276334',
      username: 'Jo Example',
      image_src: 'https://lh3.example/a/photo=s96-c',
      email: 'jo@gmail.example',
      email_verified: true,
    },
  },
  apple: {
    host: 'appleid.apple.com',
    said: {
      sub: '001234.0123456789abcdef0123456789abcdef.1234',
      email: 'x7k@privaterelay.example',
      email_verified: 'true',
      is_private_email: 'true',
      nonce_supported: true,
    },
    asked: { scope: 'openid name email', response_mode: 'form_post', prompt: null, login_hint: null },
    kept: {
      subject: '001234.0123456789abcdef0123456789abcdef.1234',
      username: 'Jo Example',
      image_src: null,
      email: 'x7k@privaterelay.example',
      email_verified: true,
    },
  },
  microsoft: {
    host: 'login.microsoftonline.com',
    said: {
      ver: '2.0',
      sub: 'AAAAAAAAAAAAAAAAAAAAAIkzqFVrSaSaFHy782bbtaQ',
      oid: '00000000-0000-0000-66f3-3332eca7ea81',
      tid: '9188040d-6c67-4c5b-b112-36a304b66dad',
      name: 'Jo Example',
      preferred_username: 'jo@outlook.example',
      email: 'jo@outlook.example',
      picture: 'https://graph.example/v1.0/me/photo/$value',
    },
    asked: { scope: 'openid profile email', prompt: 'login', login_hint: 'jo' },
    kept: {
      subject: 'AAAAAAAAAAAAAAAAAAAAAIkzqFVrSaSaFHy782bbtaQ',
      username: 'Jo Example',
      image_src: null,
      email: 'jo@outlook.example',
      email_verified: false,
    },
  },
  discord: {
    host: 'discord.com',
    said: {
      id: '80351110224678912',
      username: 'jo_example',
      discriminator: '0',
      global_name: 'Jo',
      avatar: '8342729096ea3675442027381ff50dfe',
      email: 'jo@discord.example',
      verified: true,
      flags: 64,
    },
    asked: { scope: 'identify email', prompt: 'consent', login_hint: null, nonce: null },
    kept: {
      subject: '80351110224678912',
      username: 'jo_example',
      image_src: 'https://cdn.discordapp.com/avatars/80351110224678912/8342729096ea3675442027381ff50dfe.png',
      email: 'jo@discord.example',
      email_verified: true,
    },
  },
  twitch: {
    host: 'id.twitch.tv',
    said: {
      azp: 'our client',
      sub: '713936733',
      preferred_username: 'Jo_Example',
      picture: 'https://static-cdn.example/user/profile_image-300x300.png',
      email: 'jo@twitch.example',
      email_verified: true,
    },
    asked: { scope: 'openid user:read:email', force_verify: 'true', prompt: null, login_hint: null },
    kept: {
      subject: '713936733',
      username: 'Jo_Example',
      image_src: 'https://static-cdn.example/user/profile_image-300x300.png',
      email: 'jo@twitch.example',
      email_verified: true,
    },
  },
  github: {
    host: 'github.com',
    said: {
      login: 'jo-example',
      id: 583231,
      node_id: 'MDQ6VXNlcjU4MzIzMQ==',
      avatar_url: 'https://avatars.example/u/583231?v=4',
      type: 'User',
      name: 'Jo Example',
      email: null,
      emails: [
        { email: 'old@github.example', primary: false, verified: true, visibility: null },
        { email: 'jo@github.example', primary: true, verified: true, visibility: 'private' },
      ],
    },
    asked: { scope: 'read:user user:email', prompt: 'select_account', login: 'jo', nonce: null },
    kept: {
      subject: '583231',
      username: 'jo-example',
      image_src: 'https://avatars.example/u/583231?v=4',
      email: 'jo@github.example',
      email_verified: true,
    },
  },
  x: {
    host: 'x.com',
    said: {
      data: {
        id: '2244994945',
        name: 'Jo',
        username: 'jo_example',
        profile_image_url: 'https://pbs.example/profile_images/1/jo_normal.jpg',
      },
    },
    asked: { scope: 'users.read tweet.read', prompt: null, login_hint: null, nonce: null },
    kept: {
      subject: '2244994945',
      username: 'jo_example',
      image_src: 'https://pbs.example/profile_images/1/jo_normal.jpg',
      email: null,
      email_verified: null,
    },
  },
  linkedin: {
    host: 'www.linkedin.com',
    said: {
      sub: '782bbtaQ',
      name: 'Jo Example',
      given_name: 'Jo',
      family_name: 'Example',
      picture: 'https://media.example/dms/image/jo',
      locale: { country: 'US', language: 'en' },
      email: 'jo@linkedin.example',
      email_verified: true,
    },
    asked: { scope: 'openid profile email', prompt: null, login_hint: null, nonce: null, code_challenge: null },
    kept: {
      subject: '782bbtaQ',
      username: 'Jo Example',
      image_src: 'https://media.example/dms/image/jo',
      email: 'jo@linkedin.example',
      email_verified: true,
    },
  },
}

let settings: ProviderSettings[]
let others: StandIn
let world: Rehearsal
before(async () => {
  settings = await read([
    { preset: 'google', ...client },
    { preset: 'apple', clientId: 'our client', teamId: 'our team', keyId: 'our key', privateKeyFile: 'apple.p8' },
    { preset: 'microsoft', ...client, tenant: 'consumers' },
    { preset: 'discord', clientId: 'our client', clientSecretFile: 'secret' },
    ...['twitch', 'github', 'x', 'linkedin'].map((preset) => ({ preset, ...client })),
  ])
  others = await standIn()
  for (const { host, said } of Object.values(cases)) others.person[host] = said
  world = await rehearse({ others: () => settings.map(others.inPlaceOf) })
})
after(async () => {
  others.close()
  await world.close()
})

async function read(list: unknown): Promise<ProviderSettings[]> {
  const folder = await mkdtemp(join(tmpdir(), 'chatelaine-presets-'))
  await writeFile(join(folder, 'secret'), 'our secret\n')
  await writeFile(join(folder, 'apple.p8'), applePrivateKey.export({ type: 'pkcs8', format: 'pem' }))
  await writeFile(join(folder, 'providers.json'), JSON.stringify(list))
  return readProviders(join(folder, 'providers.json'))
}

/** Goes to the provider and agrees there. */
async function leave(name: string, parameters: Record<string, string> = {}) {
  const browser = openBrowser(world.origin)
  const away = await browser.go(authorizationUrl(world.origin, { login_provider: name, ...parameters }).url)
  assert.notEqual(away.url.origin, world.origin, textOf(away.text))
  const { searchParams } = away.url
  assert.equal(searchParams.get('redirect_uri'), `${world.origin}/login/callback/${name}`)
  assert.equal(searchParams.get('code_challenge_method'), name === 'LINKEDIN' ? null : 'S256')
  const answer = new URLSearchParams({ code: others.agree(away.url), state: searchParams.get('state')! })
  return { browser, away: searchParams, answer }
}

/** The answer as the provider's page posts it: from another site, without our cookies. */
async function postBack(name: string, answer: URLSearchParams): Promise<Response> {
  const url = `${world.origin}/login/callback/${name}`
  return fetch(url, { method: 'POST', body: answer, redirect: 'manual' })
}

async function comeBack(name: string, { browser, answer }: Awaited<ReturnType<typeof leave>>): Promise<Page> {
  const back = `/login/callback/${name}`
  if (name !== 'APPLE') return browser.go(`${back}?${answer.toString()}`)
  const response = await postBack(name, answer)
  assert.equal(response.status, 303)
  assert.deepEqual(response.headers.getSetCookie(), [])
  return browser.go(response.headers.get('location')!)
}

const keptOf = (name: string) =>
  world.app.db
    .selectFrom('identities')
    .select(['subject', 'username', 'image_src', 'email', 'email_verified'])
    .where('provider', '=', name)
    .execute()

for (const [preset, { asked, kept }] of Object.entries(cases)) {
  const name = preset.toUpperCase()
  test(`${presets[preset as keyof typeof presets].label}: a person signs in from the first page to consent`, async () => {
    const left = await leave(name, { prompt: 'login', login_hint: 'jo' })
    for (const [parameter, value] of Object.entries(asked)) assert.equal(left.away.get(parameter), value, parameter)
    if (name === 'APPLE')
      left.answer.set('user', '{"name":{"firstName":"Jo","lastName":"Example"},"email":"hidden@apple.example"}')
    const page = await comeBack(name, left)
    assert.match(page.url.pathname, /^\/consent\//, textOf(page.text))
    assert.deepEqual(await keptOf(name), [kept])
  })
}

test('Apple gives the name once: it stays, and no e-mail address is written into an address', async () => {
  const left = await leave('APPLE')
  assert.match((await comeBack('APPLE', left)).url.pathname, /^\/consent\//)
  assert.equal((await keptOf('APPLE'))[0]?.username, 'Jo Example')
  const answer = new URLSearchParams({
    state: 's',
    code: 'c',
    user: '{"name":{"firstName":"J\\ud800"},"email":"a@b"}',
    more: 'x',
  })
  const response = await postBack('APPLE', answer)
  assert.equal(response.headers.get('location'), '/login/callback/APPLE?state=s&code=c')
})

test('an answer by POST is refused from a provider that answers by GET', async () => {
  const response = await postBack('DISCORD', new URLSearchParams({ state: 's', code: 'c' }))
  assert.equal(response.status, 400)
  assert.equal(response.headers.get('location'), null)
})

test('the answer of one provider is worth nothing at the address of another', async () => {
  const left = await leave('DISCORD')
  const page = await left.browser.go(`/login/callback/GITHUB?${left.answer.toString()}`)
  assert.match(page.text, /<code>sign_in_expired<\/code>/)
})

test('without id tokens too, state and browser are checked and a foreign code is refused', async () => {
  const stolen = (await leave('GITHUB')).answer.get('code')!
  const left = await leave('GITHUB')
  left.answer.set('code', stolen)
  assert.match((await comeBack('GITHUB', left)).text, /<code>sign_in_refused<\/code>/)
  const elsewhere = { ...(await leave('X')), browser: openBrowser(world.origin) }
  assert.match((await comeBack('X', elsewhere)).text, /<code>sign_in_expired<\/code>/)
  const twice = await leave('X')
  assert.match((await comeBack('X', twice)).url.pathname, /^\/consent\//)
  // The code is not redeemed again, which the provider would refuse: the same browser is led on.
  assert.match((await comeBack('X', twice)).url.pathname, /^\/consent\//)
})

test('a profile without its immutable id is refused, whatever else it says; a failing provider is said to be down', async () => {
  const { host, said } = cases.discord
  const wrong: [Record<string, unknown> | number, string][] = [
    [{ ...said, id: undefined }, 'sign_in_refused'],
    [{ ...said, id: '' }, 'sign_in_refused'],
    [{ ...said, id: 1e300 }, 'sign_in_refused'],
    [{ ...said, id: { $ne: null } }, 'sign_in_refused'],
    [{ data: said }, 'sign_in_refused'],
    [401, 'sign_in_refused'],
    [503, 'provider_unavailable'],
  ]
  for (const [person, code] of wrong) {
    others.person[host] = person
    const page = await comeBack('DISCORD', await leave('DISCORD'))
    assert.ok(page.text.includes(`<code>${code}</code>`), `${JSON.stringify(person)}: ${textOf(page.text)}`)
  }
  others.person[host] = { ...said, avatar: null, verified: false, username: 'renamed' }
  assert.match((await comeBack('DISCORD', await leave('DISCORD'))).url.pathname, /^\/consent\//)
  assert.deepEqual(await keptOf('DISCORD'), [
    { ...cases.discord.kept, username: 'renamed', image_src: null, email_verified: false },
  ])
})

test('no secret of a provider is in what was logged', () => {
  const logged = JSON.stringify(world.logged, (_key, value: unknown) =>
    value instanceof Error ? [value.message, value.cause] : value,
  )
  assert.ok(!logged.includes('our secret') && !logged.includes('token of'))
})

test('every problem of an entry with a preset is named at once', async () => {
  await assert.rejects(
    read([
      { preset: 'myspace', ...client },
      { preset: 'discord', ...client, issuer: 'https://evil.example', subjectClaim: 'email' },
      { preset: 'github', clientId: 'x' },
      { preset: 'microsoft', ...client, tenant: 'common' },
      { preset: 'apple', ...client, teamId: 'x', privateKeyFile: 'secret' },
      { preset: 'x', ...client, clientSecretFile: 'secret' },
      { preset: 'twitch', ...client, scopes: ['user:read:email'] },
      { name: 'Y', preset: 'google', clientId: 'x', clientSecretFile: 'missing' },
    ]),
    (error: Error) => {
      for (const part of [
        'provider 1: preset must be one of google, apple',
        'provider 2: unknown field issuer beside this preset',
        'provider 2: unknown field subjectClaim beside this preset',
        'provider 3: clientSecret or clientSecretFile is missing',
        'provider 4: tenant must be',
        'provider 5: Apple has no client secret',
        'provider 5: keyId is missing',
        'provider 5: privateKeyFile must contain the .p8 key',
        'provider 6: clientSecret and clientSecretFile exclude each other',
        'provider 7: scopes must contain openid',
        'provider 8: clientSecretFile cannot be read',
      ])
        assert.ok(error.message.includes(part), `${part} in ${error.message}`)
      return !error.message.includes('our secret')
    },
  )
})

test('the name of a preset stays with its provider', async (t) => {
  const { db, close } = await testDatabase()
  t.after(close)
  await bindProviders(db, settings)
  const [discord] = await read([{ preset: 'github', name: 'DISCORD', ...client }])
  await assert.rejects(bindProviders(db, [discord!]), /belongs to the issuer urn:chatelaine:preset:discord/)
  const [google] = await read([{ name: 'GOOGLE', issuer: 'https://accounts.google.com', ...client }])
  await bindProviders(db, [google!])
})
