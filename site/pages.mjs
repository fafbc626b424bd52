/**
 * The pages of the site: which files of the repository they are, where each one is on the site, and in which section of
 * the sidebar. The files remain as they are; what the site shows is a copy with the links changed.
 */
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'

export const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
export const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))

/** Where the repository can be read, such as https://git.example/chatelaine/blob/main. Without it, source files are not linked. */
export const repository = process.env.SITE_REPOSITORY?.replace(/\/+$/, '') || undefined

/** Pages that are not below docs/, and the one page there whose place is the home page's. */
const PLACES = {
  'README.md': 'readme.md',
  'SECURITY.md': 'security.md',
  'ARCHITECTURE.md': 'architecture.md',
  'CONTRIBUTING.md': 'contributing.md',
  'CHANGELOG.md': 'changelog.md',
  'docs/README.md': 'contents.md',
  'src/signer/README.md': 'signer/index.md',
  'src/signer/SECURITY.md': 'signer/security.md',
  'test/README.md': 'testing.md',
}

/** The sidebar, by reader. An item is a file of the repository, a pattern of files, or a group of items. */
export const SECTIONS = [
  {
    text: 'Start',
    items: ['README.md', 'docs/how-it-works.md', 'docs/README.md', 'docs/operate/local.md', 'CHANGELOG.md'],
  },
  {
    text: 'Build applications',
    items: [
      'docs/build/README.md',
      'docs/build/first-application.md',
      { text: 'Quickstarts', items: ['docs/build/quickstart-*.md'] },
      'docs/build/authentication.md',
      'docs/build/reading-data.md',
      'docs/build/writing-transactions.md',
      'docs/build/transfers.md',
      'docs/build/sign-messages.md',
      'docs/build/webhooks.md',
      'docs/build/limits-and-quotas.md',
      'docs/build/history-spam.md',
      'docs/build/events.md',
      'docs/build/token-exchange.md',
      { text: 'Client package', items: ['docs/build/client/*.md'] },
      'docs/build/client-libraries.md',
    ],
  },
  {
    text: 'Operate',
    items: [
      'docs/operate/README.md',
      'docs/operate/deploy.md',
      'docs/operate/debian.md',
      'docs/operate/containers.md',
      'docs/operate/networks.md',
      'docs/operate/nodes.md',
      'docs/operate/identity-providers.md',
      'docs/operate/user-pages.md',
      'docs/operate/applications.md',
      {
        text: 'Signer',
        items: [
          'docs/operate/signer-setup.md',
          'docs/operate/signer-keys.md',
          'docs/operate/policy.md',
          'docs/operate/signer-rules.md',
        ],
      },
      {
        text: 'Gas',
        items: [
          'docs/operate/gas/overview.md',
          'docs/operate/gas/top-up.md',
          'docs/operate/gas/sponsored.md',
          'docs/operate/gas/calibur.md',
          'docs/operate/gas/withdraw.md',
        ],
      },
      'docs/operate/monitoring.md',
      'docs/operate/doctor.md',
      'docs/operate/backup-restore.md',
      'docs/operate/high-availability.md',
      'docs/operate/split-deployment.md',
      'docs/operate/key-rotation.md',
      'docs/operate/key-export.md',
      'docs/operate/console.md',
      'docs/operate/operator-api.md',
      { text: 'Runbooks', items: ['docs/operate/runbooks/*.md'] },
    ],
  },
  {
    text: 'Security & evidence',
    items: [
      'SECURITY.md',
      'src/signer/README.md',
      'src/signer/SECURITY.md',
      'docs/reference/signing-log.md',
      'docs/reference/gas-contracts.md',
      { text: 'Evidence', items: ['docs/evidence/README.md', 'docs/evidence/security.md', 'docs/evidence/*.md'] },
    ],
  },
  {
    text: 'Contribute',
    items: [
      'CONTRIBUTING.md',
      'ARCHITECTURE.md',
      'test/README.md',
      'docs/writing.md',
      'docs/glossary.md',
      'docs/reference/states.md',
      { text: 'Decisions', items: ['docs/decisions/README.md', 'docs/decisions/*.md'] },
    ],
  },
  {
    text: 'Reference',
    items: [
      'docs/reference/configuration.md',
      'docs/reference/commands.md',
      'docs/reference/errors.md',
      'docs/reference/events.md',
      'docs/reference/metrics.md',
      'docs/reference/key-file-format.md',
    ],
  },
]

/** The home page: two sentences, and a door for each reader. */
export const HOME = {
  title: 'Chatelaine',
  text: 'Self-hosted wallet accounts',
  says: 'Users sign in with an account they already have, and Chatelaine holds a blockchain account for each of them. Your application uses one REST API and an ordinary OAuth token to read balances and history, and to call any contract for the user.',
  doors: [
    {
      title: 'I build an application',
      details: 'Sign users in, read their data, send transactions: step by step, and for your framework.',
      to: 'docs/build/README.md',
    },
    {
      title: 'I operate an installation',
      details: 'Deploy the server and the signer, connect networks, back up, and follow a runbook in an emergency.',
      to: 'docs/operate/README.md',
    },
    {
      title: 'I review the security',
      details: 'Components, what an attacker gains from each, known limits, and the tests of every claim.',
      to: 'SECURITY.md',
    },
    {
      title: 'I change the code',
      details: 'Set up, test and commit; the folders and their rules; why it is as it is.',
      to: 'CONTRIBUTING.md',
    },
  ],
}

/** A page's place on the site, as the path of its Markdown file, by the path of its file in the repository. */
export const pages = new Map(
  [...Object.keys(PLACES), ...globSync('docs/**/*.md', { cwd: ROOT })]
    .map((file) => file.replaceAll('\\', '/'))
    .toSorted()
    .map((file) => [file, PLACES[file] ?? file.slice('docs/'.length).replace(/(^|\/)README\.md$/, '$1index.md')]),
)

/** Files that pages link to and the site has as they are, by their path in the repository. */
export const assets = new Map(
  globSync('docs/examples/*', { cwd: ROOT })
    .map((file) => file.replaceAll('\\', '/'))
    .map((file) => [file, file.slice('docs/'.length)]),
)

const read = (file) => readFileSync(join(ROOT, file), 'utf8')

/** @returns the first heading of a page, as plain text */
export const titleOf = (file) => /^# (.+)$/m.exec(read(file))[1].replaceAll(/[`*]|\[|\]\([^)]*\)/g, '')

/** Whether a page is written by `npm run docs`: a table from margin to margin. */
export const isGenerated = (file) => read(file).startsWith('<!-- Written by `npm run docs`')

/** @returns the files of a section or group, in order, each once: patterns add what is not named before them */
function filesOf(items) {
  const found = new Set()
  for (const item of items) {
    if (typeof item === 'object') for (const file of filesOf(item.items)) found.add(file)
    else if (item.includes('*')) for (const file of globSync(item, { cwd: ROOT }).toSorted()) found.add(file)
    else found.add(item)
  }
  return [...found]
}

/** @throws if a page is in no section or in two: it would not be found */
export function checkSections() {
  const placed = SECTIONS.flatMap(({ items }) => filesOf(items))
  const wrong = [
    ...[...pages.keys()].filter((file) => !placed.includes(file)).map((file) => `${file} is in no section`),
    ...placed.filter((file, at) => placed.indexOf(file) !== at).map((file) => `${file} is in two sections`),
    ...placed.filter((file) => !pages.has(file)).map((file) => `${file} is in a section and not there`),
  ]
  if (wrong.length > 0) throw new Error(`site/pages.mjs: ${wrong.join('; ')}`)
}

/** All pages in the order of the sidebar, by section. */
export const inOrder = () => SECTIONS.map(({ text, items }) => ({ text, files: filesOf(items) }))

/** The sidebar as VitePress takes it. */
export function sidebar(sections = SECTIONS) {
  return sections.map(({ text, items }) => ({
    text,
    collapsed: true,
    items: items.flatMap((item) =>
      typeof item === 'object'
        ? sidebar([item])
        : filesOf([item])
            .filter((file) => !item.includes('*') || !items.includes(file))
            .map((file) => ({ text: titleOf(file), link: urlOf(file) })),
    ),
  }))
}

/** @returns the address of a page on the site, without the site's base */
export const urlOf = (file) =>
  `/${pages
    .get(file)
    .replace(/(^|\/)index\.md$/, '$1')
    .replace(/\.md$/, '.html')}`

/** A block of code, a link or a span of code: links within code are none. */
const PARTS = /^ *```[\s\S]*?^ *```|(?<!!)\[((?:[^[\]`]|`[^`\n]*`)*)\]\(([^)\s]+)\)|`[^`\n]*`/gm

/** @returns a page's text with links to pages as the site has them, and links to other files of the repository in `repository` */
export function textOf(file) {
  return read(file).replaceAll(PARTS, (part, words, address) => {
    if (address === undefined || /^(?:[a-z]+:|#)/.test(address)) return part
    const [path, anchor] = address.split('#')
    const target = posix.normalize(posix.join(posix.dirname(file), path))
    const hash = anchor === undefined ? '' : `#${anchor}`
    const place = pages.get(target) ?? assets.get(target)
    if (place !== undefined) {
      const to = posix.relative(posix.dirname(pages.get(file)), place)
      // A file's name says nothing on the site.
      const text = /^[\w/.-]+\.md$/.test(words) && pages.has(target) ? titleOf(target) : words
      return `[${text}](${to.startsWith('.') ? to : `./${to}`}${hash})`
    }
    if (!existsSync(join(ROOT, target))) throw new Error(`${file}: ${address} does not exist`)
    return repository === undefined ? words : `[${words}](${repository}/${target}${hash})`
  })
}

/** @returns the heading's anchor as GitHub writes it, so that a link works in both places */
export const slugOf = (heading) =>
  heading
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{M}\p{N}\p{Pc} -]/gu, '')
    .replaceAll(' ', '-')
