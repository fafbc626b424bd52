import { randomUUID } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { formatUnits, readDecimal } from '../../abi/units.ts'
import type { App } from '../../app.ts'
import { AppError, describeError } from '../../errors.ts'
import { fromHex } from '../../hex.ts'
import { readTyped, typedText } from '../../http/amount.ts'
import { sendPage, textsOf } from '../../http/page.ts'
import { parseUserId, type Hex } from '../../ids.ts'
import type { Texts } from '../../texts/en.ts'
import { explainError, PageError } from '../../texts/page-error.ts'
import { assertChangeable } from '../../users/freeze.ts'
import { peopleOf } from '../../users/names.ts'
import { hidden, leaveFor, type AccountDoor } from './access.ts'
import type { PictureOf } from './pictures.ts'
import type { AccountSlices, TransferForm, Rehearsed, Sender } from './slices.ts'
import { inTabs } from './tabs.ts'
import { ownSignIn } from '../first-party.ts'
import type { ProviderSettings } from '../federation/providers.ts'
import { assetsBody, confirmBody, sendBody, unapprovedBody, type AssetChoice, type Typed } from './send-body.ts'
import { provenVisitor, type ProvenVisitor, type Visitor } from '../sessions.ts'
import { chainName } from '../page-context.ts'

type SendPageContext = { door: AccountDoor; providers: ProviderSettings[]; slices: AccountSlices; pictureOf: PictureOf }
type FormFields = Record<string, string | undefined>

/**
 * Registers the pages for sending: the form and its confirmation. The result is a receipt. A transfer is sent once, however often
 * its form is: the confirmation page includes the idempotency key.
 */
export function sendPages(
  server: FastifyInstance,
  app: App,
  { door, providers, slices, pictureOf }: SendPageContext,
): void {
  const { sending } = slices
  if (sending === null) {
    nowhereToSend(server, app, door)
    return
  }

  /** GET /account/send; needs a recent sign-in. */
  server.get<{ Querystring: Record<string, unknown> }>('/account/send', hidden, async (request, reply) => {
    const visitor = await door.arrive(request, reply)
    if (visitor === null || !door.isFresh(visitor))
      return leaveFor(reply, ownSignIn(app.authOrigin, { comesBackTo: visitor === null ? 'first' : 'send' }))
    const { query } = request
    const asset = typeof query.asset === 'string' ? query.asset : ''
    return showForm(request, reply, visitor, { asset, to: '', provider: '', amount: '' }, null)
  })

  /**
   * POST /account/send: `asset`, `to`, `provider`, `amount`; with `max`, fills the amount in. Otherwise shows the transfer in words, after every check that is
   * possible before signing.
   */
  door.actFresh(
    '/account/send',
    async ({ visitor, form, request, reply }) => {
      const words = textsOf(request)
      const { asset = '', to = '', provider = '', amount = '' } = form
      try {
        await assertChangeable(app.db, visitor.user.accountId)
        const { chainId, order } = form.max === undefined ? readForm(app, words, form) : readAssetOf(app, form)
        const sender = senderOf(await provenVisitor(app, visitor))
        if (form.max !== undefined) {
          const typedMax = typedText(words, await maximumOf(sender, chainId, order))
          return await showForm(request, reply, await provenVisitor(app, visitor), { asset, to, provider, amount: typedMax }, null) // prettier-ignore
        }
        const found = await sending.rehearse(sender, chainId, order)
        const body = `${await door.noticeFor(visitor, words)}${confirmBody(words, {
          csrf: door.csrfOf(visitor),
          key: randomUUID(),
          network: chainName(app, words, chainId),
          asset,
          order: settledOrder(order, found),
          amount: shownAmount(order),
          found,
          imageSrc: await imageOf(app, found.recipient.address),
          isSelf: found.recipient.address?.toLowerCase() === sender.address,
        })}`
        return sendPage(reply, 200, { words, title: words.send.confirmTitle, ...inTabs(words, 'send'), body })
      } catch (error) {
        if (!(error instanceof AppError) || describeError(error.code).status >= 500) throw error
        return showForm(request, reply, await provenVisitor(app, visitor), { asset, to, provider, amount }, error)
      }
    },
    'send',
  )

  /** POST /account/send/confirm: the transfer that the confirmation page showed, and its key. */
  door.actFresh(
    '/account/send/confirm',
    async ({ visitor, form, request, reply }) => {
      const key = form.key ?? ''
      if (!/^[\da-f-]{36}$/.test(key)) throw new PageError('sign_in_refused', ({ refused }) => refused.notOurForm)
      const { chainId, tokenType, ...rest } = readAsset(app, form.asset ?? '')
      const { amount, toAddress, toUserId } = form
      const order: TransferForm = {
        tokenType,
        ...rest,
        ...(isAmount(amount) ? { amount } : {}),
        ...(isShort(toAddress, MAX_ADDRESS) ? { toAddress } : {}),
        ...(isShort(toUserId, MAX_USER_ID) ? { toUserId } : {}),
      }
      await assertChangeable(app.db, visitor.user.accountId)
      const sent = await sending
        .send(senderOf(await provenVisitor(app, visitor)), chainId, order, key)
        .catch((error: unknown) => {
          if (!(error instanceof AppError) || error.approval === undefined) throw error
          return error
        })
      if (typeof sent !== 'string') return showUnapproved(request, reply, visitor, { ...form, key }, sent)
      return new URL(
        `${app.authOrigin}/account/receipt?${new URLSearchParams({ network: String(chainId), id: sent }).toString()}`,
      )
    },
    'send',
  )

  /** Shows that the user has to approve the transfer before the same form sends it. */
  async function showUnapproved(
    request: FastifyRequest,
    reply: FastifyReply,
    visitor: Visitor,
    form: FormFields,
    refused: AppError,
  ): Promise<FastifyReply> {
    const words = textsOf(request)
    const kept = ['key', 'asset', 'amount', 'toAddress', 'toUserId'].flatMap((name) =>
      form[name] === undefined ? [] : [[name, form[name]] as const],
    )
    const body = `${await door.noticeFor(visitor, words)}${unapprovedBody(words, {
      csrf: door.csrfOf(visitor),
      id: refused.approval!.id,
      fields: Object.fromEntries(kept),
      help: explainError(words, refused).help,
    })}`
    return sendPage(reply, describeError(refused.code).status, {
      words,
      title: words.approvals.title,
      ...inTabs(words, 'send'),
      body,
    })
  }

  async function showForm(
    request: FastifyRequest,
    reply: FastifyReply,
    visitor: ProvenVisitor,
    typed: Typed,
    refused: AppError | null,
  ): Promise<FastifyReply> {
    const words = textsOf(request)
    const choices = (
      await Promise.all([...app.networks.keys()].map((chainId) => choicesOn(words, visitor, chainId)))
    ).flat()
    const choice = choices.length === 1 ? choices[0]! : choices.find(({ value }) => value === typed.asset)
    const error = refused === null ? null : explainError(words, refused)
    const page =
      choice === undefined
        ? assetsBody(words, { choices, error })
        : sendBody(words, {
            csrf: door.csrfOf(visitor),
            choice,
            hasOthers: choices.length > 1,
            providers: providers.map(({ name, label }) => ({ value: name, title: label })),
            typed,
            error,
          })
    const body = `${await door.noticeFor(visitor, words)}${page}`
    const status = refused === null ? 200 : describeError(refused.code).status
    return sendPage(reply, status, { words, title: words.send.title, ...inTabs(words, 'send'), body })
  }

  /**
   * Returns the maximum that can be sent of an asset: the balance, of native currency without the maximum fee and an
   * eighth of it, by which the next block can raise the price (EIP-1559).
   * @throws insufficient_funds, and the errors of a transfer
   */
  async function maximumOf(
    sender: Sender,
    chainId: number,
    order: TransferForm,
  ): Promise<{ value: bigint; decimals: number }> {
    const { tokenType, tokenAddress, tokenId } = order
    if (tokenType === 'ERC721' || tokenType === 'ERC1155') {
      const all = await slices.readCollectibles(sender, chainId)
      const held = all.find((one) => one.token.toLowerCase() === tokenAddress && String(one.tokenId) === tokenId)
      return { value: held?.count ?? 0n, decimals: 0 }
    }
    const all = await slices.readBalances(sender, chainId)
    const held = all.find(({ token }) => (token?.toLowerCase() ?? undefined) === tokenAddress)
    if (held === undefined) return { value: 0n, decimals: 0 }
    const { value, decimals } = held
    if (tokenType === 'ERC20') return { value, decimals }
    const least = { amount: formatUnits(1n, decimals), toAddress: order.toAddress ?? sender.address }
    const { fee } = await sending!.rehearse(sender, chainId, { tokenType, ...least })
    const rest = value - fee.value - (fee.value + 7n) / 8n
    if (rest <= 0n)
      throw new AppError('insufficient_funds', 'The balance does not exceed the maximum fee. Nothing was sent.')
    return { value: rest, decimals }
  }

  /** Returns the assets that a user can send on a network; none if the network does not respond. */
  async function choicesOn(words: Texts, { user }: ProvenVisitor, chainId: number): Promise<AssetChoice[]> {
    const network = chainName(app, words, chainId)
    try {
      const [balances, collectibles, sendable] = await Promise.all([
        slices.readBalances(user, chainId),
        slices.readCollectibles(user, chainId),
        sending!.sendable(user, chainId),
      ])
      const isOpen = (token: string | null) =>
        sendable === 'all' || (token !== null && sendable.includes(token.toLowerCase() as Hex))
      // The balance of a collection counts its pieces, which are sent one by one.
      const collections = new Set(collectibles.map(({ token }) => token.toLowerCase()))
      return [
        ...balances
          .filter(({ token }) => token === null || !collections.has(token.toLowerCase()))
          .map((balance): AssetChoice => ({
            value: `${chainId}:${balance.token === null ? 'NATIVE' : 'ERC20'}:${balance.token?.toLowerCase() ?? ''}:`,
            network,
            picture: pictureOf(chainId, balance.token),
            isOpen: isOpen(balance.token),
            balance,
          })),
        ...collectibles.map((collectible): AssetChoice => ({
          value: `${chainId}:${collectible.tokenType}:${collectible.token.toLowerCase()}:${collectible.tokenId}`,
          network,
          picture: pictureOf(chainId, collectible.token),
          isOpen: isOpen(collectible.token),
          collectible,
        })),
      ]
    } catch (error) {
      app.telemetry.log.warn('account_unreadable', { chainId }, error)
      return []
    }
  }
}

/** Registers the tab for sending of an installation without a chain: it says that there is nothing to send. */
function nowhereToSend(server: FastifyInstance, app: App, door: AccountDoor): void {
  server.get('/account/send', hidden, async (request, reply) => {
    const visitor = await door.arrive(request, reply)
    if (visitor === null) return leaveFor(reply, ownSignIn(app.authOrigin, { comesBackTo: 'first' }))
    const words = textsOf(request)
    const body = `${await door.noticeFor(visitor, words)}${assetsBody(words, { choices: [], error: null })}`
    return sendPage(reply, 200, { words, title: words.send.title, ...inTabs(words, 'send'), body })
  })
}

const senderOf = ({ user, sessionUid }: ProvenVisitor): Sender => ({
  accountId: user.accountId,
  userId: user.userId,
  address: user.address,
  sessionUid,
})

const MAX_ADDRESS = 100
const MAX_USER_ID = 300
const MAX_USERNAME = 255

const isShort = (text: string | undefined, most: number): text is string => text !== undefined && text !== '' && text.length <= most // prettier-ignore
const isAmount = (text: string | undefined): text is string => isShort(text, 200) && /^(\d*\.)?\d+$/.test(text)

/**
 * Reads the form. Missing parts are left for the engine to reject. @throws invalid_amount, sign_in_refused,
 * unknown_recipient
 */
function readForm(app: App, words: Texts, form: FormFields): { chainId: number; order: TransferForm } {
  const { chainId, ...asset } = readAsset(app, form.asset ?? '')
  return {
    chainId,
    order: { ...asset, ...readAmount(words, asset.tokenType, form.amount ?? ''), ...readRecipient(form) },
  }
}

/** Reads the asset of the form and, if it is an address, the recipient: all that the maximum depends on. */
function readAssetOf(app: App, form: FormFields): { chainId: number; order: TransferForm } {
  const { chainId, ...asset } = readAsset(app, form.asset ?? '')
  const to = form.to?.trim() ?? ''
  return { chainId, order: { ...asset, ...(/^0x[\da-f]{40}$/i.test(to) ? { toAddress: to } : {}) } }
}

/** Returns the picture of the recipient; null for anyone who is not a user. */
async function imageOf(app: App, address: string | null): Promise<string | null> {
  if (address === null) return null
  return (await peopleOf(app, [fromHex(address as Hex)])).get(address.toLowerCase() as Hex)?.imageSrc ?? null
}

const ASSET = /^(\d{1,15}):(NATIVE|ERC20|ERC721|ERC1155):(0x[\da-f]{40})?:(\d{1,78})?$/

/** Reads the asset. @throws sign_in_refused  for one that our lists cannot contain */
function readAsset(
  app: App,
  text: string,
): Pick<TransferForm, 'tokenType' | 'tokenAddress' | 'tokenId'> & { chainId: number } {
  const [, chainId, tokenType, tokenAddress, tokenId] = ASSET.exec(text) ?? []
  if (chainId === undefined || !app.networks.has(Number(chainId)))
    throw new PageError('sign_in_refused', ({ refused }) => refused.notOurForm)
  return {
    chainId: Number(chainId),
    tokenType: tokenType as TransferForm['tokenType'],
    ...(tokenAddress === undefined ? {} : { tokenAddress }),
    ...(tokenId === undefined ? {} : { tokenId }),
  }
}

/** Reads the amount. It may be empty for an ERC-721, of which there is only one. @throws invalid_amount */
function readAmount(words: Texts, tokenType: TransferForm['tokenType'], typed: string): Pick<TransferForm, 'amount'> {
  if (typed.trim() === '' && tokenType === 'ERC721') return {}
  const amount = readTyped(words, typed)
  if (amount === null) throw new PageError('invalid_amount', ({ send }) => send.ambiguous)
  return { amount }
}

/**
 * Reads the recipient: an address or a user id, which are known by their form, otherwise a username. @throws
 * unknown_recipient
 */
function readRecipient({ to = '', provider = '' }: FormFields): Partial<TransferForm> {
  const text = to.trim()
  if (/^0x/i.test(text) && text.length <= MAX_ADDRESS) return { toAddress: text }
  if (parseUserId(text) !== null && text.length <= MAX_USER_ID) return { toUserId: text }
  if (!/^[A-Z\d_]{1,32}$/.test(provider) || !isShort(text, MAX_USERNAME))
    throw new PageError('unknown_recipient', ({ codes }) => codes.unknown_recipient[1])
  return { toUserProviderType: provider, toUserUsername: text }
}

/**
 * Returns the transfer that was shown: the recipient by address if there is an account, because usernames change hands.
 */
function settledOrder(
  order: TransferForm,
  { recipient }: Rehearsed,
): Pick<TransferForm, 'amount' | 'toAddress' | 'toUserId'> {
  const { address, userId } = recipient
  return {
    ...(order.amount === undefined ? {} : { amount: order.amount }),
    ...(address === null ? { toUserId: userId! } : { toAddress: address as Hex }),
  }
}

/** Returns the amount as it was typed, which is how it is sent: its digits, and how many follow the decimal point. */
function shownAmount({ tokenType, amount }: TransferForm): { value: bigint; decimals: number } | null {
  if (tokenType === 'ERC721' || amount === undefined) return null
  const { digits, places } = readDecimal(amount)
  return { value: digits, decimals: places }
}
