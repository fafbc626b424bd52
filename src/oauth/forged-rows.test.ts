// tier: all, because it forges every column of every row
import assert from 'node:assert/strict'
import { after, before, suite, test } from 'node:test'
import { sql } from 'kysely'
import {
  amrOf,
  cameAs,
  copy,
  hashOf,
  ofUser,
  SECRET,
  set,
  signedInAs,
  stage,
  withHash,
  type Stage,
} from '../../test/forged-rows.ts'
import { issuerStandIn, type IssuerStandIn } from '../../test/issuer-stand-in.ts'
import { keyHolder } from '../../test/key-holder.ts'
import { authorizationUrl, demoApplication, post, rehearse, type Rehearsal } from '../../test/rehearsal.ts'
import { waysOf } from './consents.ts'

/** of the demo application's addresses, which the other applications here have, too */
const WAYS = JSON.stringify(waysOf({ ...demoApplication, secretHashes: [] }))

/**
 * What someone writes into the database who can write anything there and has no key. Each attack is tried twice: on a server that
 * asks for no MACs, where it must work (else it proves nothing), and on one that does, where nothing may come of it.
 */
let open: Rehearsal
let closed: Rehearsal
let idp: IssuerStandIn
before(async () => {
  ;[closed, idp] = await Promise.all([rehearse(), issuerStandIn()])
  open = await rehearse({ asksForMacs: false })
})
after(async () => {
  idp.close()
  await Promise.all([open.close(), closed.close()])
})

/** @returns what the thief gains: a token, or a code where it goes; null for nothing */
type Attack = (at: Stage) => Promise<string | null>

/** Both are signed in, and have allowed the same. */
const both = async (at: Stage) => ({ victim: await at.arrive(at.victim), thief: await at.arrive(at.thief) })

const attacks: Record<string, Attack> = {
  // Sessions
  async 'a session is led to another person'(at) {
    const { thief } = await both(at)
    await at.run(`update oauth_records set ${signedInAs(at.victimId)} where ${ofUser('Session', at.thiefId)}`)
    return at.victims(await at.tokenOf(thief.browser))
  },
  async 'a session is led to another person, by whose identity it came'(at) {
    const { thief } = await both(at)
    await at.run(`update oauth_records set user_id = '${at.victimId}', payload = payload || jsonb_build_object('accountId', '${at.victimId}', 'amr', (select payload->'amr' from oauth_records where ${ofUser('Session', at.victimId)} limit 1)) where ${ofUser('Session', at.thiefId)}`) // prettier-ignore
    return at.victims(await at.tokenOf(thief.browser))
  },
  async 'a session gets what another one says, with its MAC'(at) {
    const { thief } = await both(at)
    await at.run(`update oauth_records as own set user_id = other.user_id, payload = other.payload, seal = other.seal from oauth_records as other where own.${ofUser('Session', at.thiefId).replace('payload', 'own.payload')} and other.${ofUser('Session', at.victimId).replace('payload', 'other.payload')}`) // prettier-ignore
    return at.victims(await at.tokenOf(thief.browser))
  },
  async 'a session is moved to the id of another'(at) {
    const { thief } = await both(at)
    const { rows } = await sql<{ hash: string }>`select encode(id_hash, 'hex') as hash from oauth_records where kind = 'Session' and user_id = ${at.thiefId}`.execute(at.world.app.db) // prettier-ignore
    await at.run(`delete from oauth_records where ${ofUser('Session', at.thiefId)}`)
    await at.run(`update oauth_records set id_hash = decode('${rows[0]!.hash}', 'hex') where ${ofUser('Session', at.victimId)}`) // prettier-ignore
    return at.victims(await at.tokenOf(thief.browser))
  },
  async 'a session is led to another person, its MAC removed'(at) {
    const { thief } = await both(at)
    await at.run(
      `update oauth_records set ${signedInAs(at.victimId)}, seal = null where ${ofUser('Session', at.thiefId)}`,
    )
    return at.victims(await at.tokenOf(thief.browser))
  },
  async 'a session gets the MAC of a consent'(at) {
    const { thief } = await both(at)
    await at.run(`update oauth_records set ${signedInAs(at.victimId)}, seal = (select seal from consents limit 1) where ${ofUser('Session', at.thiefId)}`) // prettier-ignore
    return at.victims(await at.tokenOf(thief.browser))
  },
  async 'a session gets a MAC of nonsense'(at) {
    const { thief } = await both(at)
    await at.run(`update oauth_records set ${signedInAs(at.victimId)}, seal = split_part(seal, ' ', 1) || ' ' where ${ofUser('Session', at.thiefId)}`) // prettier-ignore
    return at.victims(await at.tokenOf(thief.browser))
  },
  async 'a session that has expired is given more time'(at) {
    const { browser } = await at.arrive(at.thief)
    await at.begins(`update oauth_records set ${set(['exp'], 1)} where ${ofUser('Session', at.thiefId)}`)
    await at.run(`update oauth_records set ${set(['exp'], 4_000_000_000)} where ${ofUser('Session', at.thiefId)}`)
    return at.tokenOf(browser)
  },
  async 'a session says that its person signed in just now'(at) {
    const { browser } = await at.arrive(at.thief)
    const now = Math.floor(Date.now() / 1_000)
    await at.begins(`update oauth_records set ${set(['loginTs'], now - 5_000)} where ${ofUser('Session', at.thiefId)}`)
    assert.equal(await at.tokenOf(browser, { max_age: '600' }), null)
    await at.run(`update oauth_records set ${set(['loginTs'], now)} where ${ofUser('Session', at.thiefId)}`)
    return at.tokenOf(browser, { max_age: '600' })
  },

  // What came of the pages, and visits to providers
  async 'what came of a sign-in is led to another person'(at) {
    await at.arrive(at.victim)
    const visit = await at.answerOf(at.thief)
    await visit.answered()
    await at.run(`update oauth_records set payload = jsonb_set(jsonb_set(payload, '{result,login,amr}', '${JSON.stringify(amrOf(at.victimId))}'), '{result,login,accountId}', '"${at.victimId}"') where ${withHash('Interaction', hashOf(visit.uid))}`) // prettier-ignore
    const code = (await visit.browser.go(visit.resume)).url.searchParams.get('code')
    return code === null ? null : at.victims(await at.exchange({ ...visit, code }))
  },
  async 'a sign-in under way sends its code elsewhere'(at) {
    await at.arrive(at.victim)
    const visit = await at.answerOf(at.victim)
    await visit.answered()
    await at.run(`update oauth_records set ${set(['params', 'redirect_uri'], 'https://evil.example/cb')} where ${withHash('Interaction', hashOf(visit.uid))}`) // prettier-ignore
    const { url } = await visit.browser.go(visit.resume)
    return url.origin === 'https://evil.example' ? url.searchParams.get('code') : null
  },
  async 'a sign-in under way has the challenge of another'(at) {
    await at.arrive(at.victim)
    const visit = await at.answerOf(at.victim)
    await visit.answered()
    const own = authorizationUrl(at.world.origin)
    const challenge = new URL(own.url).searchParams.get('code_challenge')
    await at.run(`update oauth_records set ${set(['params', 'code_challenge'], challenge)} where ${withHash('Interaction', hashOf(visit.uid))}`) // prettier-ignore
    const code = (await visit.browser.go(visit.resume)).url.searchParams.get('code')
    return code === null ? null : at.victims(await at.exchange({ ...visit, code, verifier: own.verifier }))
  },
  async 'a visit to a provider counts for the sign-in of another browser'(at) {
    await at.arrive(at.victim)
    const [own, theirs] = [await at.answerOf(at.thief), await at.answerOf(at.victim)]
    await at.run(`update sign_ins set interaction_uid = '${own.uid}' where state_hash = decode('${theirs.stateHash}', 'hex')`) // prettier-ignore
    await theirs.browser.go(theirs.answer)
    const code = (await own.browser.go(own.resume)).url.searchParams.get('code')
    return code === null ? null : at.victims(await at.exchange({ ...own, code }))
  },
  async 'a visit to a provider comes back in another browser'(at) {
    await at.arrive(at.victim)
    const [own, theirs] = [await at.answerOf(at.thief), await at.answerOf(at.victim)]
    await at.run(`update sign_ins set interaction_uid = '${own.uid}', browser_hash = decode('${own.browserHash}', 'hex') where state_hash = decode('${theirs.stateHash}', 'hex')`) // prettier-ignore
    const page = await own.browser.go(theirs.answer)
    const code = page.url.searchParams.get('code')
    return code === null ? null : at.victims(await at.exchange({ ...own, code }))
  },
  async 'a visit to a provider lasts longer'(at) {
    await at.arrive(at.thief)
    const visit = await at.answerOf(at.thief)
    await at.run(`update sign_ins set expires_at = expires_at + interval '1 day' where state_hash = decode('${visit.stateHash}', 'hex')`) // prettier-ignore
    const { url } = await visit.browser.go(visit.answer)
    return url.origin === at.world.origin ? null : url.searchParams.get('code')
  },

  // Codes
  async 'a code is led to another person, with its grant'(at) {
    await at.arrive(at.victim)
    const code = await at.codeOf(at.thief)
    await at.run(`update oauth_records set payload = jsonb_set(${cameAs(at.victimId)}, '{accountId}', '"${at.victimId}"') where kind in ('AuthorizationCode', 'Grant') and payload->>'accountId' = '${at.thiefId}'`) // prettier-ignore
    return at.victims(await at.exchange(code))
  },
  async 'a code is led to the grant of another person'(at) {
    const { grantId } = await at.arrive(at.victim)
    const code = await at.codeOf(at.thief)
    await at.run(`update oauth_records set grant_id = '${grantId}', payload = ${cameAs(at.victimId)} || '{"grantId":"${grantId}","accountId":"${at.victimId}"}' where ${withHash('AuthorizationCode', code.idHash)}`) // prettier-ignore
    return at.victims(await at.exchange(code))
  },
  async 'a code that was seen has the challenge of another'(at) {
    const { idHash, code, redirectUri } = await at.codeOf(at.victim)
    const own = authorizationUrl(at.world.origin)
    const challenge = new URL(own.url).searchParams.get('code_challenge')
    await at.run(`update oauth_records set ${set(['codeChallenge'], challenge)} where ${withHash('AuthorizationCode', idHash)}`) // prettier-ignore
    return at.victims(await at.exchange({ code, redirectUri, verifier: own.verifier }))
  },
  async 'a code is copied to an id that the thief knows'(at) {
    const { idHash, redirectUri } = await at.codeOf(at.victim)
    const own = authorizationUrl(at.world.origin)
    const [code, challenge] = [at.another(), new URL(own.url).searchParams.get('code_challenge')]
    await at.run(copy(withHash('AuthorizationCode', idHash), { idHash: hashOf(code), payload: `jsonb_set(payload, '{codeChallenge}', '"${challenge}"')` })) // prettier-ignore
    return at.victims(await at.exchange({ code, redirectUri, verifier: own.verifier }))
  },
  async 'a code is written from nothing'(at) {
    const { grantId } = await at.arrive(at.victim)
    const own = authorizationUrl(at.world.origin, { scope: 'openid wallet:read' })
    const { code, idHash } = await at.codeOf(at.thief)
    const challenge = new URL(own.url).searchParams.get('code_challenge')
    const made = at.another()
    await at.run(copy(withHash('AuthorizationCode', idHash), { idHash: hashOf(made), seal: 'null', payload: `${cameAs(at.victimId)} || '{"grantId":"${grantId}","accountId":"${at.victimId}","codeChallenge":"${challenge}"}'` })) // prettier-ignore
    await at.run(
      `update oauth_records set grant_id = '${grantId}' where ${withHash('AuthorizationCode', hashOf(made))}`,
    )
    assert.notEqual(code, made)
    return at.victims(await at.exchange({ ...own, code: made }))
  },
  async 'a code is given to another application'(at) {
    const clientId = await at.application({ kind: 'public', secretHashes: [] })
    const code = await at.codeOf(at.victim)
    await at.run(`update oauth_records set client_id = case kind when 'Grant' then '${clientId}' end, ${set(['clientId'], clientId)} where kind in ('AuthorizationCode', 'Grant') and payload->>'accountId' = '${at.victimId}'`) // prettier-ignore
    return at.victims(await at.exchange(code, { client_id: clientId }))
  },
  async 'a code that has expired is given more time'(at) {
    const code = await at.codeOf(at.thief)
    await at.begins(`update oauth_records set ${set(['exp'], 1)} where ${withHash('AuthorizationCode', code.idHash)}`)
    await at.run(`update oauth_records set ${set(['exp'], 4_000_000_000)} where ${withHash('AuthorizationCode', code.idHash)}`) // prettier-ignore
    return at.exchange(code)
  },
  async 'a code that was used is made unused'(at) {
    const code = await at.codeOf(at.thief)
    assert.notEqual(await at.exchange(code), null)
    await at.run(`update oauth_records set consumed_at = null where ${withHash('AuthorizationCode', code.idHash)}`)
    return at.exchange(code)
  },

  // Refresh tokens and grants
  async 'a refresh token is led to the grant of another person'(at) {
    const { victim, thief } = await both(at)
    await at.run(`update oauth_records set grant_id = '${victim.grantId}', payload = ${cameAs(at.victimId)} || '{"grantId":"${victim.grantId}","accountId":"${at.victimId}"}' where ${withHash('RefreshToken', hashOf(thief.refresh))}`) // prettier-ignore
    return at.victims(await at.refresh(thief.refresh))
  },
  async 'a refresh token and its grant are led to another person'(at) {
    const { thief } = await both(at)
    await at.run(`update oauth_records set payload = jsonb_set(${cameAs(at.victimId)} - 'identity', '{accountId}', '"${at.victimId}"') where kind in ('RefreshToken', 'Grant') and payload->>'accountId' = '${at.thiefId}'`) // prettier-ignore
    return at.victims(await at.refresh(thief.refresh))
  },
  async 'a refresh token is moved to an id that the thief knows'(at) {
    const { refresh } = await at.arrive(at.victim)
    const known = at.another()
    await at.run(`update oauth_records set id_hash = decode('${hashOf(known)}', 'hex') where ${withHash('RefreshToken', hashOf(refresh))}`) // prettier-ignore
    return at.victims(await at.refresh(known))
  },
  async 'a refresh token is copied to an id that the thief knows'(at) {
    const { refresh } = await at.arrive(at.victim)
    const known = at.another()
    await at.run(copy(withHash('RefreshToken', hashOf(refresh)), { idHash: hashOf(known) }))
    return at.victims(await at.refresh(known))
  },
  async 'a refresh token is given to another application'(at) {
    const clientId = await at.application({ kind: 'public', secretHashes: [] })
    const { refresh } = await at.arrive(at.victim)
    await at.run(`update oauth_records set client_id = case kind when 'Grant' then '${clientId}' end, ${set(['clientId'], clientId)} where kind in ('RefreshToken', 'Grant') and payload->>'accountId' = '${at.victimId}'`) // prettier-ignore
    return at.victims(await at.refresh(refresh, clientId))
  },
  async 'a refresh token that has expired is given more time'(at) {
    const { refresh } = await at.arrive(at.thief)
    await at.begins(`update oauth_records set ${set(['exp'], 1)} where ${withHash('RefreshToken', hashOf(refresh))}`)
    await at.run(`update oauth_records set ${set(['exp'], 4_000_000_000)} where ${withHash('RefreshToken', hashOf(refresh))}`) // prettier-ignore
    return at.refresh(refresh)
  },
  async 'a refresh token that was used is made unused'(at) {
    const { refresh } = await at.arrive(at.thief)
    assert.notEqual(await at.refresh(refresh), null)
    await at.begins(`update oauth_records set consumed_at = consumed_at - interval '1 hour' where ${withHash('RefreshToken', hashOf(refresh))}`) // prettier-ignore
    await at.run(`update oauth_records set consumed_at = null where ${withHash('RefreshToken', hashOf(refresh))}`)
    return at.refresh(refresh)
  },
  async 'a refresh token was used only just now'(at) {
    const { refresh } = await at.arrive(at.thief)
    assert.notEqual(await at.refresh(refresh), null)
    await at.begins(`update oauth_records set consumed_at = consumed_at - interval '1 hour' where ${withHash('RefreshToken', hashOf(refresh))}`) // prettier-ignore
    await at.run(`update oauth_records set consumed_at = now() where ${withHash('RefreshToken', hashOf(refresh))}`)
    return at.refresh(refresh)
  },
  async 'a refresh token is never used up'(at) {
    const { refresh } = await at.arrive(at.thief)
    const own = withHash('RefreshToken', hashOf(refresh))
    await at.run(`update oauth_records set consumed_at = 'infinity' where ${own}`)
    await at.refresh(refresh)
    await at.run(`update oauth_records set consumed_at = consumed_at - interval '1 hour' where ${own}`)
    return at.refresh(refresh)
  },
  async 'a refresh token is bound to no key any more'(at) {
    const { refresh } = await at.arrive(at.victim)
    await at.begins(`update oauth_records set ${set(['jkt'], 'x'.repeat(43))} where ${withHash('RefreshToken', hashOf(refresh))}`) // prettier-ignore
    assert.equal(await at.refresh(refresh), null)
    await at.run(
      `update oauth_records set payload = payload - 'jkt' where ${withHash('RefreshToken', hashOf(refresh))}`,
    )
    return at.victims(await at.refresh(refresh))
  },
  async 'a grant and its refresh token allow more'(at) {
    const { refresh, grantId } = await at.arrive(at.victim, { scope: 'openid wallet:read' })
    await at.run(`update oauth_records set ${set(['resources'], { [`${at.world.origin}/v1`]: 'wallet:read contracts:write' })} where kind = 'Grant' and grant_id = '${grantId}'`) // prettier-ignore
    await at.run(`update oauth_records set ${set(['scope'], 'openid wallet:read contracts:write')} where ${withHash('RefreshToken', hashOf(refresh))}`) // prettier-ignore
    const token = await at.refresh(refresh)
    return token?.includes('.') && scopeOf(token).includes('contracts:write') ? token : null
  },
  async 'a grant that was revoked is written again, for a refresh token that is'(at) {
    const { refresh, grantId } = await at.arrive(at.thief)
    const other = await at.arrive(at.thief)
    await post(at.world.origin, '/oauth/token/revocation', { token: refresh, client_id: 'demo' })
    await at.run(`update oauth_records set grant_id = '${grantId}', id_hash = decode(case kind when 'Grant' then '${hashOf(grantId)}' else '${hashOf(refresh)}' end, 'hex'), payload = case kind when 'Grant' then payload else jsonb_set(payload, '{grantId}', '"${grantId}"') end where grant_id = '${other.grantId}' and kind in ('Grant', 'RefreshToken')`) // prettier-ignore
    return at.refresh(refresh)
  },
  async 'a refresh token that was revoked is put back, with a grant that is made for it'(at) {
    const { refresh, grantId } = await at.arrive(at.thief)
    const { grantId: other } = await at.arrive(at.thief)
    // As after a revocation, with the row of the token put back whole.
    await at.run(`delete from oauth_records where kind = 'Grant' and grant_id = '${grantId}'`)
    await at.run(copy(`kind = 'Grant' and grant_id = '${other}'`, { idHash: hashOf(grantId) }))
    await at.run(`update oauth_records set grant_id = '${grantId}' where ${withHash('Grant', hashOf(grantId))}`)
    return at.refresh(refresh)
  },

  // What people allowed
  async 'a consent is widened'(at) {
    const { browser } = await at.arrive(at.victim, { scope: 'openid wallet:read' })
    await at.run(`update consents set permissions = permissions || '["contracts:write"]' where account_id = (select account_id from accounts where user_id = '${at.victimId}')`) // prettier-ignore
    return at.tokenOf(browser, { scope: 'openid wallet:read contracts:write' })
  },
  async 'a consent of another person is copied'(at) {
    const { browser } = await at.arrive(at.victim, { scope: 'openid' })
    await at.arrive(at.thief)
    await at.run(`insert into consents (account_id, client_id, permissions, keys, ways, seal) select victim.account_id, client_id, permissions, keys, ways, seal from consents, accounts as victim where victim.user_id = '${at.victimId}' and consents.account_id = (select account_id from accounts where user_id = '${at.thiefId}') on conflict (account_id, client_id) do update set permissions = excluded.permissions, keys = excluded.keys, ways = excluded.ways, seal = excluded.seal`) // prettier-ignore
    return at.tokenOf(browser, { scope: 'openid wallet:read contracts:write' })
  },
  async 'a consent to another application is copied'(at) {
    const clientId = await at.application({ kind: 'public', secretHashes: [] })
    const { browser } = await at.arrive(at.victim)
    await at.run(`insert into consents (account_id, client_id, permissions, keys, ways, seal) select account_id, '${clientId}', permissions, keys, ways, seal from consents where account_id = (select account_id from accounts where user_id = '${at.victimId}')`) // prettier-ignore
    return at.tokenOf(browser, { client_id: clientId })
  },
  async 'a consent is written from nothing'(at) {
    const clientId = await at.application({ kind: 'public', secretHashes: [] })
    const { browser } = await at.arrive(at.victim)
    await at.run(`insert into consents (account_id, client_id, permissions, ways) select account_id, '${clientId}', '["wallet:read"]', '${WAYS}' from accounts where user_id = '${at.victimId}'`) // prettier-ignore
    return at.tokenOf(browser, { client_id: clientId })
  },
  async 'a consent knows the key of one more program'(at) {
    const { jkt: key } = await keyHolder()
    const { browser } = await at.arrive(at.victim)
    await at.run(`update consents set keys = '{"${key}":{"permissions":["wallet:read"],"at":"2026-01-01"}}' where account_id = (select account_id from accounts where user_id = '${at.victimId}')`) // prettier-ignore
    return (await at.silently(browser, { redirect_uri: 'http://127.0.0.1:6666/x', dpop_jkt: key }))?.code ?? null
  },

  // Applications
  async 'an application sends people to one more address'(at) {
    const clientId = await at.application({ kind: 'public', secretHashes: [], permissions: ['wallet:read'] })
    const { browser } = await at.codeOf(at.victim, { client_id: clientId, scope: 'openid wallet:read' })
    await at.run(`update applications set redirect_uris = redirect_uris || '["https://evil.example/cb"]' where client_id = '${clientId}'`) // prettier-ignore
    await at.run(`update consents set ways = ways || '["https://evil.example"]' where client_id = '${clientId}'`)
    at.forget(clientId)
    const asked = { client_id: clientId, scope: 'openid wallet:read', redirect_uri: 'https://evil.example/cb' }
    return (await at.silently(browser, asked))?.code ?? null
  },
  async 'the secret of an application is replaced'(at) {
    const clientId = await at.application()
    await at.run(`update applications set secret_hashes = '["${hashOf('mine')}"]' where client_id = '${clientId}'`)
    return at.machineToken(clientId, { secret: 'mine' })
  },
  async 'an application has one more secret'(at) {
    const clientId = await at.application()
    await at.run(`update applications set secret_hashes = secret_hashes || '["${hashOf('mine')}"]' where client_id = '${clientId}'`) // prettier-ignore
    return at.machineToken(clientId, { secret: 'mine' })
  },
  async 'an application may do more'(at) {
    const clientId = await at.application({ permissions: ['wallet:read'] })
    await at.run(
      `update applications set permissions = permissions || '["users:read"]' where client_id = '${clientId}'`,
    )
    return at.machineToken(clientId)
  },
  async 'an application is on another network'(at) {
    const clientId = await at.application()
    await at.run(`update applications set chain_id = 1 where client_id = '${clientId}'`)
    return at.machineToken(clientId)
  },
  async 'an application needs no secret any more'(at) {
    const clientId = await at.application()
    const code = await at.codeOf(at.victim, { client_id: clientId, scope: 'openid' })
    await at.run(`update applications set kind = 'public' where client_id = '${clientId}'`)
    at.forget(clientId)
    return at.victims(await at.exchange(code, { client_id: clientId }))
  },
  async 'an application needs no key any more'(at) {
    const clientId = await at.application({ needsDpop: true })
    await at.run(`update applications set needs_dpop = false where client_id = '${clientId}'`)
    return at.machineToken(clientId)
  },
  async 'an application is called the operator’s own'(at) {
    const clientId = await at.application()
    await at.run(`update applications set is_first_party = true where client_id = '${clientId}'`)
    return at.machineToken(clientId)
  },
  async 'an application gets people back elsewhere after a sign-out'(at) {
    const clientId = await at.application()
    await at.run(`update applications set post_logout_redirect_uris = '["https://evil.example/"]' where client_id = '${clientId}'`) // prettier-ignore
    return at.machineToken(clientId)
  },
  async 'a suspended application is resumed'(at) {
    const clientId = await at.application({ isSuspended: true })
    assert.equal(await at.machineToken(clientId), null)
    await at.run(`update applications set suspended_at = null where client_id = '${clientId}'`)
    return at.machineToken(clientId)
  },
  async 'an application has the name of another'(at) {
    const clientId = await at.application()
    await at.run(`update applications set client_id = '${clientId}-two' where client_id = '${clientId}'`)
    return at.machineToken(`${clientId}-two`)
  },
  async 'an application is written from nothing'(at) {
    const clientId = await at.application()
    await at.run(`insert into applications (client_id, name, chain_id, kind, redirect_uris, permissions, allowed_origins, secret_hashes, seal) select '${clientId}-new', name, chain_id, kind, redirect_uris, permissions, allowed_origins, secret_hashes, seal from applications where client_id = '${clientId}'`) // prettier-ignore
    return at.machineToken(`${clientId}-new`)
  },
  async 'an application brings the people of another'(at) {
    const clientId = await at.application()
    const issuer = { provider: 'APP_SHOP', issuer: idp.issuer, audience: 'shop', jwksUri: null, algorithms: ['RS256', 'ES256'], subjectClaim: 'sub', usernameClaims: ['name'], pictureClaim: 'picture', maxAgeSeconds: 3_600, isReusable: false, allowsPrivate: false } // prettier-ignore
    await at.run(`update applications set issuers = '${JSON.stringify([issuer])}' where client_id = '${clientId}'`)
    at.forget(clientId)
    const basic = Buffer.from(`${clientId}:${encodeURIComponent(SECRET)}`).toString('base64')
    const form = { grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange', subject_token: await idp.sign({}), subject_token_type: 'urn:ietf:params:oauth:token-type:id_token' } // prettier-ignore
    const { body } = await post(at.world.origin, '/oauth/token', form, { authorization: `Basic ${basic}` })
    return body.access_token ?? null
  },
}

const scopeOf = (token: string): string =>
  (JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString()) as { scope: string }).scope

suite('what someone writes into the database gives them no token', () => {
  for (const [number, [name, attack]] of Object.entries(attacks).entries())
    test(name, async () => {
      const before = await times()
      assert.notEqual(await attack(stage(open, `o${number}`)), null, 'without MACs it works')
      assert.equal(await times(), before)
      assert.equal(await attack(stage(closed, `c${number}`)), null)
      assert.ok((await times()) > before, 'it is counted')
      const told = closed.logged.filter((one) => (one as { event: string }).event === 'row_not_authentic')
      assert.ok(told.length > 0)
      assert.ok(!JSON.stringify(told).includes(SECRET))
    })
})

const times = async (): Promise<number> => {
  const { values } = await closed.app.telemetry.rowsNotAuthentic.get()
  return values.reduce((sum, { value }) => sum + value, 0)
}
