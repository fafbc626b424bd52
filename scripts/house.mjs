/**
 * The figures of the house: `node scripts/house.mjs [folder of a checkout]`. Files and arrows of each folder of src, circles,
 * WeakMaps, words that the tables of test/words.test.ts do not want, types of one name, repeated lines, sizes of files and
 * functions, and how far three requests are from the data. Counts text: no types are checked, so any commit can be counted.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'

const root = resolve(process.argv[2] ?? join(import.meta.dirname, '..'))
const src = join(root, 'src')
const files = readdirSync(src, { recursive: true })
  .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))
  .toSorted((a, b) => a.localeCompare(b))
const texts = new Map(files.map((file) => [file, readFileSync(join(src, file), 'utf8')]))

/** Imports of a file, `type` imports too or not. */
function importsOf(file, { types }) {
  const pattern =
    /^(?:import|export)\s+(type\s+)?(?:([^'"();]*?)\s+from\s+)?['"](\.[^'"]+)['"]|import\(\s*['"](\.[^'"]+)['"]\s*\)/gm
  return [...texts.get(file).matchAll(pattern)]
    .filter(([, isType, names]) => types || (isType === undefined && !isOnlyTypes(names)))
    .map((match) => relative('/src', join('/src', dirname(file), match[3] ?? match[4])))
    .filter((to) => texts.has(to))
}

const isOnlyTypes = (names) =>
  names !== undefined &&
  /^\{[^}]*\}$/.test(names) &&
  names
    .slice(1, -1)
    .split(',')
    .every((name) => /^\s*(type\s|$)/.test(name))

/** Groups of files of which each reaches each other (Tarjan). */
function circles(graph) {
  const [index, low, stack, found] = [new Map(), new Map(), [], []]
  const visit = (file) => {
    index.set(file, index.size)
    low.set(file, index.get(file))
    stack.push(file)
    for (const next of graph.get(file)) {
      if (!index.has(next)) visit(next)
      if (stack.includes(next)) low.set(file, Math.min(low.get(file), low.get(next)))
    }
    if (low.get(file) !== index.get(file)) return
    const group = stack.splice(stack.indexOf(file))
    if (group.length > 1) found.push(group)
  }
  for (const file of graph.keys()) if (!index.has(file)) visit(file)
  return found
}

const graphOf = (options) => new Map(files.map((file) => [file, importsOf(file, options)]))
const all = graphOf({ types: true })
const folderOf = (file) => (file.includes('/') ? dirname(file) : '.')

/** Lines of six that are written more than once, in product code. */
function duplicates() {
  const AT_ONCE = 6
  const seen = new Map()
  for (const [file, text] of texts) {
    const lines = text
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line.length > 3 && !/^(import|\*|\/[/*])/.test(line))
    for (let at = 0; at + AT_ONCE <= lines.length; at++) {
      const part = lines.slice(at, at + AT_ONCE).join('\n')
      if (part.length > 150) seen.set(part, [...(seen.get(part) ?? []), file])
    }
  }
  return [...seen.values()].filter((where) => where.length > 1).length
}

/** Lengths of the functions that are declared at the left margin, in lines. */
function functions() {
  return [...texts].flatMap(([file, text]) => {
    const lines = text.split('\n')
    return lines.flatMap((line, at) => {
      const [, named, assigned] =
        /^(?:export )?(?:(?:async )?function\*? (\w+)|const (\w+)(?:: [^=]+)? = (?:async )?(?:<|\(|function))/.exec(
          line,
        ) ?? []
      const name = named ?? assigned
      if (name === undefined) return []
      // The line that ends a signature over several lines is no end.
      const length = lines.slice(at + 1).findIndex((next) => /^[})\]]/.test(next) && !/^\).*(?:\{|=>)$/.test(next))
      const isShort = /[^{(,]$/.test(line) && !line.endsWith('=>')
      return [{ name: `${file} ${name}`, lines: isShort || length < 0 ? 1 : length + 2 }]
    })
  })
}

/** As test/words.test.ts finds none; null where Node.js does not run TypeScript. */
async function unwantedWords() {
  const list = await import('../test/unwanted-words.ts').catch(() => null)
  return list && [...texts].reduce((sum, [file, text]) => sum + list.unwantedIn(`src/${file}`, text).length, 0)
}

/** Fewest imports from one file to another; null where there is no way. */
function hops(from, to) {
  const seen = new Set([from])
  let front = [from]
  for (let count = 0; front.length > 0; count++) {
    if (front.includes(to)) return count
    front = [...new Set(front.flatMap((file) => all.get(file) ?? []))].filter(
      (file) => !seen.has(file) && seen.add(file),
    )
  }
  return null
}

const first = (...names) => names.find((name) => texts.has(name)) ?? names[0]
const ways = [
  ['a balance: route to JSON-RPC', 'balances/routes.ts', first('chain/rpc/rpc.ts', 'chain/rpc.ts')],
  [
    'a write: route to bound nonce',
    first('contracts/write-route.ts', 'contracts/routes.ts'),
    'transactions/lanes/take-nonce.ts',
  ],
  ['a write: route to signer', first('contracts/write-route.ts', 'contracts/routes.ts'), 'signer-wire/client.ts'],
  ['a transfer: follower to its transaction', 'follower/follow.ts', 'follower/apply.ts'],
  ['a transfer: route to SQL', 'history/routes.ts', 'history/select.ts'],
]

const count = (pattern) => [...texts.values()].reduce((sum, text) => sum + (text.match(pattern)?.length ?? 0), 0)
const middle = (numbers) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)]
const names = [...texts.values()].flatMap((text) => [...text.matchAll(/^(?:export )?(?:type|interface|(?:abstract )?class|enum) (\w+)\b/gm)].map(([, name]) => name)) // prettier-ignore
const sizes = [...texts].map(([file, text]) => ({ name: file, lines: text.split('\n').length - 1 }))
const lengths = functions()
const longest = (list) => list.toSorted((a, b) => b.lines - a.lines)[0]
const folders = [...new Set(files.map(folderOf))].toSorted((a, b) => a.localeCompare(b))
const captions = folders.filter((folder) => files.some((file) => folderOf(file) === folder && texts.get(file).startsWith(`/**\n * ${folder}: `))) // prettier-ignore

const figures = [
  ['files of src, folders', `${files.length}, ${folders.length}`],
  [
    'arrows within a folder, most',
    (([folder, arrows]) => `${arrows} (${folder}/)`)(
      folders
        .map((folder) => [
          folder,
          files
            .filter((file) => folderOf(file) === folder)
            .reduce((sum, file) => sum + all.get(file).filter((to) => folderOf(to) === folder).length, 0),
        ])
        .toSorted((a, b) => b[1] - a[1])[0],
    ),
  ],
  [
    'arrows between folders',
    files.reduce((sum, file) => sum + all.get(file).filter((to) => folderOf(to) !== folderOf(file)).length, 0),
  ],
  ['circles of imports, with types', `${circles(graphOf({ types: false })).length}, ${circles(all).length}`],
  ['`new WeakMap`', count(/new WeakMap\b/g)],
  ['unwanted words, src', (await unwantedWords()) ?? 'needs Node.js 24'],
  ['names of several types', [...new Set(names.filter((name, index) => names.indexOf(name) !== index))].length],
  ['entries with a caption', `${captions.length} of ${folders.filter((folder) => folder !== '.').length}`],
  ['six lines repeated elsewhere', duplicates()],
  [
    'lines of a file: median, largest',
    `${middle(sizes.map(({ lines }) => lines))}, ${longest(sizes).lines} (${longest(sizes).name})`,
  ],
  [
    'lines of a function: median, largest',
    `${middle(lengths.map(({ lines }) => lines))}, ${longest(lengths).lines} (${longest(lengths).name})`,
  ],
  ...ways.map(([what, from, to]) => [`imports of ${what}`, hops(from, to) ?? '-']),
]

console.log('| figure | value |\n|---|---|')
for (const [what, value] of figures) console.log(`| ${what} | ${value} |`)
console.log('\n| folder | files | arrows within | out of it |\n|---|---|---|---|')
for (const folder of folders) {
  const own = files.filter((file) => folderOf(file) === folder)
  const to = own.flatMap((file) => all.get(file))
  const within = to.filter((file) => folderOf(file) === folder).length
  console.log(`| ${folder === '.' ? 'src' : folder} | ${own.length} | ${within} | ${to.length - within} |`)
}
