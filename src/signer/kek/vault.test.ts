import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { makeCertificate, noCertificates } from '../../../test/certificate.ts'
import { openNamed, secretFiles } from '../../../test/key-services/opened.ts'
import { vaultStandIn } from '../../../test/key-services/vault.ts'
import { KekUnavailable, NotItsOwn } from './provider.ts'

const [DEK, AAD] = [randomBytes(32), Buffer.from('chatelaine data key 1')]

test('an agent on a Unix socket shows a token of its own, and needs no file of ours', async (t) => {
  const { folder } = secretFiles(t)
  const vault = await vaultStandIn(t, { socketPath: join(folder, 'agent.sock'), agent: true, mount: 'team/transit' })
  const kek = await openNamed(vault.uri, {})
  assert.deepEqual(await kek.unwrap(await kek.wrap(DEK, AAD), AAD), DEK)
  assert.ok(vault.received.every(({ headers }) => headers['x-vault-request'] === 'true'))
  await vault.leave()
  await assert.rejects(kek.wrap(DEK, AAD), /Vault cannot be reached \((ENOENT|ECONNREFUSED)\)/)
  assert.deepEqual(vault.faults, [])
})

test('a namespace is in its header, and a token that something renewed is used at the next call', async (t) => {
  const vault = await vaultStandIn(t, { namespace: 'custody/eu' })
  const tokenFile = secretFiles(t).put('token', 'hvs.first')
  const kek = await openNamed(vault.uri, { tokenFile })
  const wrapped = await kek.wrap(DEK, AAD)
  assert.ok(vault.received.every(({ headers }) => headers['x-vault-namespace'] === 'custody/eu'))
  vault.tokens.delete('hvs.first')
  vault.tokens.add('hvs.second')
  await assert.rejects(
    kek.unwrap(wrapped, AAD),
    /denies access \(403\): the token in SIGNER_KEK_TOKEN_FILE has expired/,
  )
  writeFileSync(tokenFile, 'hvs.second\n')
  assert.deepEqual(await kek.unwrap(wrapped, AAD), DEK)
  assert.deepEqual(vault.faults, [])
})

test('wrapped bytes are what Vault gave, with the version; one below the least that may open is refused', async (t) => {
  const vault = await vaultStandIn(t)
  const kek = await openNamed(vault.uri, { tokenFile: secretFiles(t).put('token', 'hvs.first') })
  const first = await kek.wrap(DEK, AAD)
  vault.key.rotate()
  const second = await kek.wrap(DEK, AAD)
  assert.deepEqual([first, second].map((one) => one.toString('utf8').slice(0, 9)), ['vault:v1:', 'vault:v2:']) // prettier-ignore
  assert.deepEqual(await kek.unwrap(first, AAD), DEK)
  vault.forgetBefore(2)
  await assert.rejects(kek.unwrap(first, AAD), (error) => error instanceof KekUnavailable && /min_decryption_version/.test(error.message)) // prettier-ignore
  assert.deepEqual(await kek.unwrap(second, AAD), DEK)
  // What another provider wrapped is not even sent.
  const asked = vault.received.length
  await assert.rejects(kek.unwrap(randomBytes(60), AAD), (error) => !(error instanceof KekUnavailable))
  assert.equal(vault.received.length, asked)
  vault.misbehave('spoils a checksum')
  await assert.rejects(kek.wrap(DEK, AAD), /response of Vault is incomplete/)
})

test('what answers in place of Vault says nothing of whose the bytes are', async (t) => {
  const vault = await vaultStandIn(t)
  const kek = await openNamed(vault.uri, { tokenFile: secretFiles(t).put('token', 'hvs.first') })
  const wrapped = await kek.wrap(DEK, AAD)
  for (const said of [
    '<html>cannot decrypt TLS</html>',
    '"decrypt"',
    'null',
    '{"errors":"decrypt"}',
    '{"errors":[{"title":"decrypt"}]}',
  ]) {
    vault.misbehave('is not reached', 1, said)
    await assert.rejects(kek.unwrap(wrapped, AAD), (error) => error instanceof KekUnavailable && /responded with status 400/.test(error.message)) // prettier-ignore
  }
  vault.misbehave('is not reached', 1, '{"errors":["cipher: message authentication failed"]}')
  await assert.rejects(kek.unwrap(wrapped, AAD), NotItsOwn)
})

test('a key that may leave Vault, or is of another kind, is refused, and so is a Vault that ignores what a data key is bound to', async (t) => {
  const tokenFile = secretFiles(t).put('token', 'hvs.first')
  for (const [config, sentence] of [
    [{ exportable: true }, /can be exported/],
    [{ allow_plaintext_backup: true }, /can be exported/],
    [{ exportable: undefined }, /can be exported/],
    [{ type: 'rsa-4096' }, /not of type aes256-gcm96/],
    [{ derived: true }, /or is derived/],
  ] as const)
    await assert.rejects(
      vaultStandIn(t, { config }).then(({ uri }) => openNamed(uri, { tokenFile })),
      sentence,
    )
  const old = await vaultStandIn(t, { ignoresAad: true })
  const kek = await openNamed(old.uri, { tokenFile })
  await assert.rejects(kek.wrap(DEK, AAD), /ignores associated_data/)
})

test(
  'over TLS only the certificates of SIGNER_KEK_CA_FILE are believed, whatever the environment says',
  { skip: noCertificates },
  async (t) => {
    const { put } = secretFiles(t)
    const [tls, other] = [await makeCertificate('localhost'), await makeCertificate('localhost')]
    const vault = await vaultStandIn(t, { tls })
    const uri = vault.uri.replace('127.0.0.1', 'localhost')
    const tokenFile = put('token', 'hvs.first')
    process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
    t.after(() => delete process.env.NODE_TLS_REJECT_UNAUTHORIZED)
    await assert.rejects(openNamed(uri, { tokenFile }), /is not believed: .*\(DEPTH_ZERO_SELF_SIGNED_CERT\)/)
    await assert.rejects(openNamed(uri, { tokenFile, caFile: put('other.pem', other.cert) }), /is not believed/)
    await assert.rejects(
      openNamed(uri, { tokenFile, caFile: put('no.pem', 'none') }),
      /SIGNER_KEK_CA_FILE holds no certificate/,
    )
    await assert.rejects(
      openNamed(uri, { tokenFile, caFile: put('no.pem', '') + '-none' }),
      /SIGNER_KEK_CA_FILE cannot be read/,
    )
    const caFile = put('ca.pem', tls.cert)
    // Good, and for another name.
    await assert.rejects(
      openNamed(vault.uri, { tokenFile, caFile }),
      /is not believed: .*\(ERR_TLS_CERT_ALTNAME_INVALID\)/,
    )
    assert.equal(vault.received.length, 0)
    const kek = await openNamed(uri, { tokenFile, caFile })
    assert.deepEqual(await kek.unwrap(await kek.wrap(DEK, AAD), AAD), DEK)
  },
)
