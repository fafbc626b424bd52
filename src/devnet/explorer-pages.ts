import { html } from 'ghtml'
import { checksumAddress } from '../digits.ts'
import { formatUnits } from '../abi/units.ts'
import { ends, type PageParts } from '../http/page.ts'
import { en } from '../texts/en.ts'
import type { Hex } from '../ids.ts'

type Coin = { networkName: string; symbol: string }

// The node's block objects, with only the fields that are shown.
export type ExplorerBlock = {
  number: Hex
  hash: Hex
  parentHash: Hex
  timestamp: Hex
  gasUsed: Hex
  gasLimit: Hex
  baseFeePerGas?: Hex
}
export type WithHashes = ExplorerBlock & { transactions: Hex[] }
export type WithTransactions = ExplorerBlock & { transactions: ExplorerTransaction[] }
export type ExplorerTransaction = {
  hash: Hex
  from: Hex
  to: Hex | null
  value: Hex
  nonce: Hex
  gas: Hex
  input: Hex
  type: Hex
  blockNumber: Hex | null
}
export type ExplorerReceipt = {
  status: Hex
  gasUsed: Hex
  effectiveGasPrice: Hex
  contractAddress: Hex | null
  logs: { address: Hex; topics: Hex[]; data: Hex; logIndex: Hex }[]
}

const LOGS_SHOWN = 100

/** Renders the newest blocks, 25 per page. */
export function blocks({ blocks, head, networkName }: Coin & { blocks: WithHashes[]; head: number }): PageParts {
  const newer =
    Number(blocks[0]?.number ?? head) < head ? html`<a class="button quiet" href="/explorer">Newest</a>` : ''
  const last = Number(blocks.at(-1)?.number ?? 0)
  const older = last > 0 ? html`<a class="button quiet" href="/explorer?before=${last}">Older</a>` : ''
  const turns = newer + older
  return shell(
    networkName,
    'Blocks',
    null,
    html`<div class="card stack">
      <h1>Blocks</h1>
      <p class="muted">
        A block is mined when there is a transaction. Empty ones follow until it is final, and one a minute after that.
      </p>
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <th>Block</th>
              <th>Time</th>
              <th class="number">Transactions</th>
              <th class="number roomy">Gas used</th>
            </tr>
          </thead>
          <tbody>
            !${blocks.map(
              (block) =>
                html`<tr>
                  <td class="short">!${blockLink(block.number)}</td>
                  <td class="short">!${timeInTable(block)}</td>
                  <td class="number">${block.transactions.length}</td>
                  <td class="number roomy">${grouped(BigInt(block.gasUsed))}</td>
                </tr>`,
            )}
          </tbody>
        </table>
      </div>
      !${turns === '' ? '' : html`<div class="row">!${turns}</div>`}
    </div>`,
  )
}

/** Renders the page of a block. */
export function block({
  block,
  isFinal,
  networkName,
  symbol,
}: Coin & { block: WithTransactions; isFinal: boolean }): PageParts {
  const number = Number(block.number)
  return shell(
    networkName,
    `Block ${number}`,
    `Block ${number}`,
    html`<div class="card stack">
        <div class="row spread">
          <h1>Block ${number}</h1>
          <span class="badge ${isFinal ? 'good' : ''}">${isFinal ? 'final' : 'not final yet'}</span>
        </div>
        <dl class="facts">
          <dt>Time</dt>
          <dd>!${time(block)}</dd>
          <dt>Hash</dt>
          <dd class="mono">${block.hash}</dd>
          <dt>Parent</dt>
          <dd class="mono">
            !${number === 0 ? 'none' : html`<a href="/explorer/block/${block.parentHash}">${block.parentHash}</a>`}
          </dd>
          <dt>Gas used</dt>
          <dd>${grouped(BigInt(block.gasUsed))} of ${grouped(BigInt(block.gasLimit))}</dd>
          <dt>Base fee</dt>
          <dd>${gwei(block.baseFeePerGas ?? '0x0')}</dd>
        </dl>
      </div>
      <div class="card stack">
        <h2>!${count(block.transactions.length, 'transaction')}</h2>
        !${transactionTable(block.transactions, symbol)}
      </div>`,
  )
}

/** Renders the page of a transaction. */
export function transaction({
  transaction: tx,
  receipt,
  block,
  networkName,
  symbol,
}: Coin & {
  transaction: ExplorerTransaction
  receipt: ExplorerReceipt | null
  block: ExplorerBlock | null
}): PageParts {
  const created = receipt?.contractAddress ?? null
  const logs = receipt?.logs ?? []
  return shell(
    networkName,
    `Transaction ${ends(tx.hash)}`,
    'Transaction',
    html`<div class="card stack">
        <div class="row spread">
          <h1>Transaction</h1>
          !${statusBadge(receipt)}
        </div>
        <dl class="facts">
          <dt>Hash</dt>
          <dd class="mono">${tx.hash}</dd>
          <dt>Block</dt>
          <dd>!${tx.blockNumber === null ? 'pending' : blockLink(tx.blockNumber)}</dd>
          !${
            block === null
              ? ''
              : html`<dt>Time</dt>
                  <dd>!${time(block)}</dd>`
          }
          <dt>From</dt>
          <dd>!${addressLink(tx.from)}</dd>
          <dt>To</dt>
          <dd>!${tx.to === null ? 'none (contract creation)' : addressLink(tx.to)}</dd>
          !${
            created === null
              ? ''
              : html`<dt>Contract created</dt>
                  <dd>!${addressLink(created)}</dd>`
          }
          <dt>Value</dt>
          <dd>${coins(tx.value, symbol)}</dd>
          !${
            receipt === null
              ? ''
              : html`<dt>Fee</dt>
                  <dd>${coins(BigInt(receipt.gasUsed) * BigInt(receipt.effectiveGasPrice), symbol)}</dd>`
          }
          <dt>Gas</dt>
          <dd>
            ${receipt === null ? `limit ${grouped(BigInt(tx.gas))}` : `${grouped(BigInt(receipt.gasUsed))} of ${grouped(BigInt(tx.gas))}, at ${gwei(receipt.effectiveGasPrice)}`}
          </dd>
          <dt>Nonce</dt>
          <dd>${Number(tx.nonce)}</dd>
          <dt>Type</dt>
          <dd>${Number(tx.type)}</dd>
        </dl>
      </div>
      <div class="card stack">
        <h2>Input</h2>
        !${tx.input === '0x' ? '<p class="muted">None.</p>' : html`<pre tabindex="0">${tx.input}</pre>`}
      </div>
      <div class="card stack">
        <h2>!${count(logs.length, 'log')}</h2>
        !${logs
          .slice(0, LOGS_SHOWN)
          .map(
            (log) =>
              html`<dl class="facts">
                <dt>Index</dt>
                <dd>${Number(log.logIndex)}</dd>
                <dt>Contract</dt>
                <dd>!${addressLink(log.address)}</dd>
                !${log.topics.map(
                  (topic, i) =>
                    html`<dt>Topic ${i}</dt>
                      <dd class="mono">${topic}</dd>`,
                )}
                <dt>Data</dt>
                <dd>
                  !${log.data === '0x' ? '<span class="muted">none</span>' : html`<pre tabindex="0">${log.data}</pre>`}
                </dd>
              </dl>`,
          )
          .join('<hr>')}
        !${logs.length > LOGS_SHOWN ? html`<p class="muted">${logs.length - LOGS_SHOWN} more are not shown.</p>` : ''}
      </div>`,
  )
}

/** Renders the page of an address. `scannedTo`: first block that was searched. */
export function address({
  address,
  balance,
  code,
  nonce,
  transactions,
  scannedTo,
  networkName,
  symbol,
}: Coin & {
  address: Hex
  balance: Hex
  code: Hex
  nonce: Hex
  transactions: ExplorerTransaction[]
  scannedTo: number
}): PageParts {
  const kind = code === '0x' ? 'Account' : 'Contract'
  return shell(
    networkName,
    `${kind} ${ends(address)}`,
    kind,
    html`<div class="card stack">
        <h1>${kind}</h1>
        <dl class="facts">
          <dt>Address</dt>
          <dd class="mono">${address}</dd>
          <dt>Balance</dt>
          <dd>${coins(balance, symbol)}</dd>
          <dt>Transactions sent</dt>
          <dd>${Number(nonce)}</dd>
          !${
            code === '0x'
              ? ''
              : html`<dt>Code</dt>
                  <dd>${grouped(BigInt((code.length - 2) / 2))} bytes</dd>`
          }
        </dl>
      </div>
      <div class="card stack">
        <h2>Newest transactions</h2>
        !${transactionTable(transactions, symbol)}
        <p class="muted">Blocks from ${scannedTo} on were searched.</p>
      </div>`,
  )
}

/** Renders the page for a 404: no such block, transaction, address or page. */
export function nothingHere(networkName: string): PageParts {
  return shell(
    networkName,
    'Nothing here',
    null,
    html`<div class="card stack">
      <h1>Not found</h1>
      <p>
        The development chain has no block, transaction or address like that. A chain that was started afresh has
        forgotten what it held before.
      </p>
      <p><a href="/explorer">To the newest blocks</a></p>
    </div>`,
  )
}

/** Renders the page for a 502: the node is unavailable or returned invalid data. */
export function noAnswer(networkName: string): PageParts {
  return shell(
    networkName,
    'The chain is not responding',
    null,
    html`<div class="card stack">
      <h1>The chain is not responding</h1>
      <p>The node of the development chain gave no usable response. Reload this page in a moment.</p>
    </div>`,
  )
}

function shell(networkName: string, title: string, here: string | null, content: string): PageParts {
  return {
    // English only: the pages are for developers, and chain data is English.
    words: en,
    title: `${title} · ${networkName}`,
    layout: 'wide',
    notice: `Development chain ${networkName}: nothing on it has any value.`,
    body: html`<div class="row spread">
        <nav class="trail" aria-label="Where you are">
          <a href="/">Home</a><span class="muted">/</span
          ><a href="/explorer">Explorer</a
          >!${here === null ? '' : html`<span class="muted">/</span><span>${here}</span>`}
        </nav>
        <form class="search" action="/explorer/search" role="search">
          <input
            type="search"
            name="q"
            aria-label="Find an address, a transaction or a block"
            placeholder="Address, transaction or block"
            autocomplete="off"
            spellcheck="false"
            maxlength="66"
          />
        </form>
      </div>
      !${content}`,
  }
}

function transactionTable(transactions: ExplorerTransaction[], symbol: string): string {
  if (transactions.length === 0) return '<p class="muted">None.</p>'
  return html`<div class="scroll">
    <table>
      <thead>
        <tr>
          <th>Transaction</th>
          <th>Block</th>
          <th>From</th>
          <th>To</th>
          <th class="number">Value</th>
        </tr>
      </thead>
      <tbody>
        !${transactions.map(
          (tx) =>
            html`<tr>
              <td class="short mono"><a href="/explorer/tx/${tx.hash}">${ends(tx.hash)}</a></td>
              <td class="short">!${tx.blockNumber === null ? '' : blockLink(tx.blockNumber)}</td>
              <td class="short">!${addressLink(tx.from, ends)}</td>
              <td class="short">!${tx.to === null ? 'new contract' : addressLink(tx.to, ends)}</td>
              <td class="number">${coins(tx.value, symbol)}</td>
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`
}

function statusBadge(receipt: ExplorerReceipt | null): string {
  if (receipt === null) return '<span class="badge">pending</span>'
  return receipt.status === '0x1'
    ? '<span class="badge good">success</span>'
    : '<span class="badge danger">reverted</span>'
}

const blockLink = (number: Hex): string => html`<a href="/explorer/block/${Number(number)}">${Number(number)}</a>`

function addressLink(address: Hex, shown: (address: string) => string = (whole) => whole): string {
  const checksummed = checksumAddress(address.toLowerCase())
  return html`<a class="mono" href="/explorer/address/${checksummed}" title="${checksummed}">${shown(checksummed)}</a>`
}

function time({ timestamp }: ExplorerBlock): string {
  const at = calendar(timestamp)
  return at === null
    ? html`second ${BigInt(timestamp)}`
    : html`<time datetime="${at.iso}">${at.day} ${at.clock} UTC</time>`
}

/** Formats a time for a table; on a phone, without date and zone. */
function timeInTable({ timestamp }: ExplorerBlock): string {
  const at = calendar(timestamp)
  if (at === null) return html`second ${BigInt(timestamp)}`
  return html`<time datetime="${at.iso}"
    ><span class="roomy">${at.day} </span>${at.clock}<span class="roomy"> UTC</span></time
  >`
}

/**
 * Converts a timestamp to UTC. Returns null if it is no valid date: the clock of a development chain can be set to
 * anything.
 */
function calendar(timestamp: Hex): { iso: string; day: string; clock: string } | null {
  const at = new Date(Number(timestamp) * 1_000)
  if (Number.isNaN(at.getTime())) return null
  const iso = at.toISOString()
  const [day, rest] = iso.split('T') as [string, string]
  return { iso, day, clock: rest.slice(0, 8) }
}

const coins = (wei: Hex | bigint, symbol: string): string => `${formatUnits(BigInt(wei), 18)} ${symbol}`
const gwei = (wei: Hex): string => `${formatUnits(BigInt(wei), 9)} gwei`
const grouped = (number: bigint): string => number.toLocaleString('en')
const count = (number: number, noun: string): string => (number === 1 ? `1 ${noun}` : `${number} ${noun}s`)
