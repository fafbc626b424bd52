import react from '@vitejs/plugin-react'
import { defineConfig } from 'vite'

// The application `demo` of a development installation has redirect URIs of 127.0.0.1.
export default defineConfig({ plugins: [react()], server: { host: '127.0.0.1' } })
