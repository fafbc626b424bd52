import assert from 'node:assert/strict'
import { test } from 'node:test'
import { qrSvg } from './qr.ts'

/** Level M, read back by a reader that was written from the standard. */
const ADDRESS = '0x70997970C51812dc3A010C7d01b50e0d17dc79C8'
const MODULES = `
#######.##......#..#..#######
#.....#.#..#....##....#.....#
#.###.#...####.#...#..#.###.#
#.###.#.#.##.####...#.#.###.#
#.###.#..#.##.##.#.##.#.###.#
#.....#..#.#.....#.#..#.....#
#######.#.#.#.#.#.#.#.#######
........#.###....##.#........
#.##.###.#..#....#.##.#..#.##
#.#.##.##.###.#....#..#.#...#
##....##..#.##....#.......#..
##..#...###..##...##.###.#.#.
...#..#.#....#.#.#...#.#.##..
..#......#####.###...###...##
####.##.#...##..#.###..##...#
..#.....#.....##..##.#..#..#.
..###.#.##..#...#......#.#..#
...#.#.##.#..#.##.#..#.#.###.
#.##..#..#.#.#.##.#.##..##...
..##.#.#..##....##.###.#..#..
.#...##.....#...##.######.#.#
........##.####.#...#...##..#
#######.###.#.#..#.##.#.##...
#.....#.#..###..#.#.#...##...
#.###.#..#..#..###..#########
#.###.#.#.##..##.#..#...#...#
#.###.#.###.##...#...#......#
#.....#..##.#####.#.##.#...#.
#######.####.#..#..##.#..#.#.
`
  .trim()
  .split('\n')

const modulesIn = (svg: string, size: number): string[] => {
  const dark = new Set([...svg.matchAll(/M(\d+) (\d+)h1v1h-1z/g)].map(([, x, y]) => `${x} ${y}`))
  return Array.from({ length: size }, (_, y) =>
    Array.from({ length: size }, (_, x) => (dark.has(`${x} ${y}`) ? '#' : '.')).join(''),
  )
}

test('an address is drawn as the code that readers read, with four modules of light on every side', () => {
  const svg = qrSvg(ADDRESS, 'QR code')
  assert.match(svg, /viewBox="0 0 37 37"/)
  const light = Array.from({ length: 4 }, () => '.'.repeat(37))
  assert.deepEqual(modulesIn(svg, 37), [...light, ...MODULES.map((row) => `....${row}....`), ...light])
})

test('the drawing has a name, a quiet zone and nothing that could run', () => {
  const svg = qrSvg('0x12', 'QR code of "0x12" <b>')
  assert.match(svg, /viewBox="0 0 29 29"/)
  assert.match(svg, /aria-label="QR code of &quot;0x12&quot; &lt;b>"/)
  assert.ok(!/style=|<script|href/.test(svg))
})
