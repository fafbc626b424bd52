export const metadata = { title: 'Wallet' }

export default function Layout({ children }) {
  return (
    <html lang="en">
      <body style={{ font: '1rem/1.5 system-ui', margin: '2rem auto', maxWidth: '40rem', padding: '0 1rem' }}>
        {children}
      </body>
    </html>
  )
}
