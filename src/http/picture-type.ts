/**
 * Returns the media type of a PNG, JPEG, WebP or GIF by its first bytes, not by its name or what its host reports; null
 * for anything else. Source: PNG §5.2, JFIF §B.1.1.3, WebP container, GIF89a §17
 */
export function pictureType(content: Buffer): 'image/png' | 'image/jpeg' | 'image/webp' | 'image/gif' | null {
  if (content.subarray(0, 8).equals(Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'))) return 'image/png'
  if (content.subarray(0, 3).equals(Buffer.from([0xff, 0xd8, 0xff]))) return 'image/jpeg'
  if (content.toString('latin1', 0, 4) === 'RIFF' && content.toString('latin1', 8, 12) === 'WEBP') return 'image/webp'
  return /^GIF8[79]a$/.test(content.toString('latin1', 0, 6)) ? 'image/gif' : null
}
