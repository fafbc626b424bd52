import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { contrast, readColor } from '../color.ts'
import { ConfigError, readConfig } from '../config.ts'
import { openBrand } from './brand.ts'

let folder: string
before(async () => void (folder = await mkdtemp(join(tmpdir(), 'chatelaine-brand-'))))
after(() => rm(folder, { recursive: true }))

const problemsOf = (env: Record<string, string>): string[] => {
  try {
    readConfig(env, 'server')
    return []
  } catch (error) {
    assert.ok(error instanceof ConfigError)
    return error.problems
  }
}

test('contrast is that of WCAG', () => {
  const between = (one: string, other: string) => contrast(readColor(one)!, readColor(other)!).toFixed(2)
  assert.equal(between('#000000', '#ffffff'), '21.00')
  assert.equal(between('#777777', '#ffffff'), '4.48')
  assert.equal(between('#123456', '#123456'), '1.00')
})

test('what nobody could read, and links that are not https, are refused by name', () => {
  assert.deepEqual(
    problemsOf({ BRAND_COLOR: '#1f5673', BRAND_NAME: 'Meadow', SUPPORT_URL: 'https://x.example/help' }),
    [],
  )
  assert.match(
    problemsOf({ BRAND_COLOR: '#ffcc00' })[0]!,
    /^BRAND_COLOR is too light for light pages: .* 1\.\d, at least 4\.5/,
  )
  for (const color of ['red', '#fff', '1f5673', '#1f5673;}body{'])
    assert.deepEqual(problemsOf({ BRAND_COLOR: color }), ['BRAND_COLOR must be a colour as #rrggbb'])
  for (const name of [' ', 'x'.repeat(41), 'a\u0007b'])
    assert.deepEqual(problemsOf({ BRAND_NAME: name }), ['BRAND_NAME must be 1 to 40 characters'])
  for (const key of ['SUPPORT_URL', 'PRIVACY_URL', 'TERMS_URL'])
    assert.deepEqual(problemsOf({ [key]: 'http://x.example' }), [`${key} must be an https URL`])
  assert.equal(problemsOf({ TERMS_URL: 'javascript:alert(1)' }).length, 1)
})

test('every colour that is taken is readable in the dark too', () => {
  for (const color of ['#000000', '#1f5673', '#7a1f4b', '#0000ff', '#b00020', '#006400']) {
    const { stylesheet } = openBrand(readConfig({ BRAND_COLOR: color }, 'server'))
    const [light, dark] = [...String(stylesheet!.content).matchAll(/--accent:(#\w{6});--accent-strong:(#\w{6});--on-accent:(#\w{6})/g)] // prettier-ignore
    for (const [[, accent, strong, on], grounds] of [
      [light!, ['#f5f4f0', '#ffffff']],
      [dark!, ['#14161a', '#1d2025', '#262a30']],
    ] as const)
      // prettier-ignore
      for (const tone of [accent!, strong!]) {
        for (const ground of grounds) assert.ok(contrast(readColor(tone)!, readColor(ground)!) >= 4.5, `${tone} on ${ground}`) // prettier-ignore
        assert.ok(contrast(readColor(tone)!, readColor(on!)!) >= 4.5, `${on} on ${tone}`)
      }
  }
})

test('a logo is known by its bytes, and what is no picture is refused', async () => {
  const open = async (content: string | Buffer) => {
    const file = join(folder, 'logo')
    await writeFile(file, content)
    return openBrand(readConfig({ BRAND_LOGO_FILE: file }, 'server')).logo!.type
  }
  assert.equal(await open('<?xml version="1.0"?>\n<!-- drawn by hand -->\n<svg xmlns="x"/>'), 'image/svg+xml')
  assert.equal(await open(Buffer.from('\x89PNG\r\n\x1a\n….', 'latin1')), 'image/png')
  assert.equal(await open(Buffer.from([0xff, 0xd8, 0xff, 0xe0])), 'image/jpeg')
  assert.equal(await open('RIFF\0\0\0\0WEBPVP8 '), 'image/webp')
  for (const other of ['', 'hello', '<!doctype html><svg></svg>', '<script>1</script>', 'x'.repeat(1_000)])
    await assert.rejects(open(other), /BRAND_LOGO_FILE must hold a picture/)
  await assert.rejects(open(`<svg>${' '.repeat(300_000)}`), /BRAND_LOGO_FILE is larger/)
  assert.throws(() => openBrand(readConfig({ BRAND_LOGO_FILE: join(folder, 'none') }, 'server')), /cannot be read/)
})
